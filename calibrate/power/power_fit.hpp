// SPDX-License-Identifier: Apache-2.0
// Fits a device's power model to measured matrix products with and without pauses.
#pragma once

#include "sim/model/platform.hpp"

#include <vector>

namespace athanor {

/// Bursts of equal kernels back to back, with pauses between bursts in which nothing runs.
struct KernelBursts {
  struct Kernel {
    Seconds start = 0;  ///< since the start of the first kernel
    Seconds seconds = 0;
  };
  std::vector<Kernel> kernels;
  double running_share = 0;  ///< share of the time in which kernels ran
  double watts = 0;          ///< mean; of a single burst, over its second half
};

struct PowerMeasurements {
  /// Bursts of different shares and lengths: some on which no limit acts, and some on which a limit
  /// acts for a part of each burst.
  std::vector<KernelBursts> bursts;
  /// One burst from idle. The power limit has settled by its second half.
  KernelBursts sustained;
};

/// Fits a power model in three steps.
/// 1. Idle power, unthrottled power and the exponent e: a kernel that takes s times its unthrottled
///    time draws idle + (unthrottled - idle) s^-e. Fitted to the mean power of all bursts.
/// 2. The lowest limit is the power under sustained load.
/// 3. Its averaging window is fitted to the time that kernels took in the bursts, and in sustained
///    load until it has settled. If that leaves an error, a second limit above the first is fitted.
/// The caller adds lane powers and the rate of products. Throws Error if no such device can have
/// been measured: fewer than a hundred kernels, or power that does not grow with load.
[[nodiscard]] PowerModel fit_power(const PowerMeasurements& measured);

/// Largest errors of a model on the measurements that its limits are fitted to, as shares of the
/// measured values.
struct PowerFitErrors {
  double seconds = 0, watts = 0;
};
[[nodiscard]] PowerFitErrors fit_errors(const PowerModel& model, const PowerMeasurements& measured);

/// Returns the time of a kernel on which no limit acts.
[[nodiscard]] Seconds unthrottled_seconds(const PowerMeasurements& measured);

}  // namespace athanor
