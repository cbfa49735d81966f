// SPDX-License-Identifier: Apache-2.0
// Scaling of a profile from the machine on which it was measured to another, by roofline.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

namespace athanor {

/// Rule by which the device time of a phase is scaled.
enum class ScalingRule {
  Roofline,  ///< matrix products by the matrix rate, the rest by device memory
  Products,  ///< everything by the matrix rate
  Memory,    ///< everything by device memory
};

/// Times on the target machine over times on the source machine.
struct ScalingRatios {
  double products = 1;  ///< from the sustained matrix rates
  double memory = 1;    ///< from AdamW on the device at its largest size, which memory bounds
};

/// Returns the ratios of two platforms. Throws InputError when one lacks the figures.
[[nodiscard]] ScalingRatios scaling_ratios(const Platform& from, const Platform& to);
/// Returns those by which scale_profile() scales `profile`.
[[nodiscard]] ScalingRatios scaling_ratios(const Profile& profile, const Platform& from,
                                           const Platform& to);

/// Returns `profile`, measured on `from`, as `to` would give it. The share that matrix products and
/// attention have of a phase's kernels counts as products. If no kernels were traced, the FLOPs of
/// its unit at the matrix rate of `from` do, at most the whole; a backward whose products exceed
/// its own time did the excess in the forward before it (the unit with the loss). Spreads keep
/// their proportion. Memory stays. The time to issue stays too, because no data sheet tells the
/// host's. The matrix rate of the profile's own GPU is preferred to that of `from`. Every phase
/// under Roofline lies between the same phase under the other two rules. Throws InputError when the
/// profile was not made on the device of `from`.
[[nodiscard]] Profile scale_profile(const Profile& profile, const Platform& from,
                                    const Platform& to, ScalingRule rule = ScalingRule::Roofline);

/// Returns `platform` with updates on the host (AdamW and sums of squares) that take `factor` times
/// as long.
[[nodiscard]] Platform with_host_update_slowdown(Platform platform, double factor);

}  // namespace athanor
