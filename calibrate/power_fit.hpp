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
  /// One burst until speed and power have settled.
  KernelBursts sustained;
  double settled_watts = 0;  ///< of the same kernels, after it
  /// With pauses after which the limit acts on a part of each burst; on average below the limit.
  std::vector<KernelBursts> limited;
};

/// Idle power and power at full clock are those of a line through the two shares. The limit is the
/// power of sustained load, its window the one under which all of `limited` together take what they
/// took: when the limit acts on a single burst varies by a factor of three, with the moment at
/// which the device looks. The exponent is that between full and settled speed. Lane powers and the
/// rate of products are left to the caller. Throws Error where the measurements cannot be of such
/// a device (fewer than a hundred kernels, power that does not grow with load).
[[nodiscard]] PowerModel fit_power(const PowerMeasurements& measured);

/// The kernels' time where the limit never acts.
[[nodiscard]] Seconds full_clock_seconds(const PowerMeasurements& measured);

}  // namespace athanor
