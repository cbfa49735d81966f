// SPDX-License-Identifier: Apache-2.0
// Kernels that a power limit throttled: their measured time, and their time under a model.
#pragma once

#include "calibrate/power/power_fit.hpp"
#include "sim/model/platform.hpp"

#include <span>
#include <vector>

namespace athanor {

/// Bursts with pauses. The kernel after a pause starts slowly and does not count.
class ThrottledKernels {
 public:
  /// Takes `kernels`, each of which takes `unthrottled` seconds if no limit acts. `first_pause` is
  /// the pause before the first.
  ThrottledKernels(std::span<const KernelBursts::Kernel> kernels, Seconds first_pause,
                   Seconds unthrottled);

  struct Totals {
    Seconds counted = 0;  ///< all kernels but those after pauses
    double watts = 0;     ///< mean; 0: not known
  };
  Totals measured;
  /// Simulates the bursts under `model`, with the measured pauses, after a round in which budgets
  /// settle.
  [[nodiscard]] Totals simulate(const PowerModel& model) const;

 private:
  /// Kernels back to back, after a pause.
  struct Burst {
    Seconds pause = 0;
    Seconds seconds = 0;  ///< unthrottled
    bool is_first = false;
  };
  void add(const KernelBursts::Kernel& kernel, Seconds pause, Seconds unthrottled);

  std::vector<Burst> bursts_;
};

}  // namespace athanor
