// SPDX-License-Identifier: Apache-2.0
// A device's power model from what was measured of matrix products with and without pauses.
#pragma once

#include "sim/model/platform.hpp"

#include <vector>

namespace athanor {

/// Equal kernels back to back, and pauses in which nothing runs, in turns.
struct KernelBursts {
  struct Kernel {
    Seconds start = 0;  ///< since the first one's
    Seconds seconds = 0;
  };
  std::vector<Kernel> kernels;
  double running_share = 0;  ///< of the time, in which kernels ran
  double watts = 0;          ///< mean over all of it; of a single burst, over its second half
};

struct PowerMeasurements {
  /// Of different shares and lengths: such that no limit acts, and such that one acts on a part of
  /// each burst.
  std::vector<KernelBursts> bursts;
  /// One burst from idle, settled by its second half.
  KernelBursts sustained;
};

/// Idle power, power at full clock and the exponent are those with which kernels as fast as all of
/// these were draw what was drawn. The lowest limit is what sustained load draws. Its window, and a
/// second limit above it where one alone does not explain what was measured, are those under which
/// bursts, and sustained load until it has settled, take what they took. Lane powers and the rate
/// of products are left to the caller. Throws Error where the measurements cannot be of such a
/// device (fewer than a hundred kernels, power that does not grow with load).
[[nodiscard]] PowerModel fit_power(const PowerMeasurements& measured);

/// How far a model is at most from what its limits were fitted to, as a share of what was measured.
struct PowerFitErrors {
  double seconds = 0, watts = 0;
};
[[nodiscard]] PowerFitErrors fit_errors(const PowerModel& model, const PowerMeasurements& measured);

/// The kernels' time where no limit acts.
[[nodiscard]] Seconds unthrottled_seconds(const PowerMeasurements& measured);

}  // namespace athanor
