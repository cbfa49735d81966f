// SPDX-License-Identifier: Apache-2.0
// A profile that was measured on one machine, as another one would give it: by roofline.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

namespace athanor {

/// What the device time of a phase follows.
enum class ScalingRule {
  Roofline,  ///< its matrix products the matrix rate, the rest device memory
  Products,  ///< all of it the matrix rate
  Memory,    ///< all of it device memory
};

/// How many times as long something takes on the one machine as on the other.
struct ScalingRatios {
  double products = 1;  ///< from the sustained matrix rates
  double memory = 1;    ///< from AdamW on the device at its largest size, which memory bounds
};

/// Throws InputError when a platform lacks the figures.
[[nodiscard]] ScalingRatios scaling_ratios(const Platform& from, const Platform& to);

/// `profile`, measured on `from`, as `to` would give it. Of each phase, the share that matrix
/// products and attention have of its kernels counts as products. Where no kernels were traced, the
/// FLOPs of its unit at the matrix rate of `from` do, at most the whole; what backward has of them
/// above its own time was done in the forward before it (the unit with the loss). Spreads keep
/// their proportion. Memory stays, and so does the time to issue: the host's, which no data sheet
/// tells. The matrix rate of the profile's own GPU counts before that of `from`. Every phase under
/// Roofline lies between the same phase under the other two rules. Throws InputError when the
/// profile was not made on the device of `from`.
[[nodiscard]] Profile scale_profile(const Profile& profile, const Platform& from,
                                    const Platform& to, ScalingRule rule = ScalingRule::Roofline);

/// The same machine with updates on the host (AdamW and sums of squares) that take `factor` times
/// as long.
[[nodiscard]] Platform with_host_update_slowdown(Platform platform, double factor);

}  // namespace athanor
