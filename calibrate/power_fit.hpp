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
  double watts = 0;          ///< mean over all of it
};

struct PowerMeasurements {
  /// With different shares, and with pauses long enough that the limit never acts.
  KernelBursts seldom, often;
  /// One burst from idle until speed and power have settled.
  KernelBursts ramp;
  double settled_watts = 0;  ///< of the same kernels, after the ramp
};

/// Idle power and power at full clock are those of a line through the two shares. The ramp gives
/// the limits: kernels run at full clock until a first budget is used up, at a second speed until
/// another one is, and then at the speed of sustained load; where the second speed is within 2 % of
/// the last, there is one limit. The exponent is that between full and settled speed. Lane
/// powers and the rate of products are left to the caller. Throws Error where the measurements
/// cannot be of such a device (fewer than a hundred kernels, power that does not grow with load).
[[nodiscard]] PowerModel fit_power(const PowerMeasurements& measured);

/// The kernels' time where the limit never acts.
[[nodiscard]] Seconds full_clock_seconds(const PowerMeasurements& measured);

/// The kernels' time in the last quarter of `bursts`, which spans it.
[[nodiscard]] Seconds settled_seconds(const KernelBursts& bursts);

}  // namespace athanor
