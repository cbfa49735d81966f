// SPDX-License-Identifier: Apache-2.0
// The parts of a calibration, in order, with what each is expected to take.
#pragma once

#include "sim/base/progress.hpp"
#include "sim/base/quantities.hpp"

#include <functional>
#include <string>
#include <vector>

namespace athanor {

struct CalibrationPart {
  /// Called by a part with the share of it that is done.
  using Advance = std::function<void(double share)>;

  std::string name;
  Seconds expected = 1;  ///< only ratios count: they make the estimate of the time left
  std::function<void(const Advance&)> measure;
};

/// Measures one part after the other. Reports each before it begins and as it advances.
void run_parts(const std::vector<CalibrationPart>& parts, const OnProgress& progress);

}  // namespace athanor
