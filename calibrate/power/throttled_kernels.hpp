// SPDX-License-Identifier: Apache-2.0
// Measured kernels that a power limit slowed, and the same under a model of it.
#pragma once

#include "calibrate/power/power_fit.hpp"
#include "sim/model/platform.hpp"

#include <span>
#include <vector>

namespace athanor {

/// Bursts with pauses. The kernel after a pause starts slowly and does not count.
class ThrottledKernels {
 public:
  /// `kernels` of `full` seconds at full clock, after `first_pause`.
  ThrottledKernels(std::span<const KernelBursts::Kernel> kernels, Seconds first_pause,
                   Seconds full);

  struct Totals {
    Seconds counted = 0;  ///< without first kernels
    double watts = 0;     ///< mean; 0: not known
  };
  Totals measured;
  /// Under `model`, with pauses as they were, again and again.
  [[nodiscard]] Totals simulate(const PowerModel& model) const;

 private:
  /// Kernels back to back.
  struct Burst {
    Seconds pause = 0;    ///< before
    Seconds seconds = 0;  ///< at full clock
    bool is_first = false;
  };
  void add(const KernelBursts::Kernel& kernel, Seconds pause, Seconds full);

  std::vector<Burst> bursts_;
};

}  // namespace athanor
