// SPDX-License-Identifier: Apache-2.0
// Where no plan fits: what is missing, and the nearest changes that are known to fit.
#pragma once

#include "sim/policy/request.hpp"

#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Message for InfeasibleError when none of the plans whose peaks are `peaks` fits: the one that
/// comes closest (tier, need, limit), then the changes that fit. `peaks` must not be empty.
[[nodiscard]] std::string no_plan_fits(std::span<const TierBytes> peaks, const Profile& profile,
                                       const Platform& platform, const PlanRequest& request);

/// The same for one given plan; its own micro-batch, activations and limits are what may change.
[[nodiscard]] std::string plan_does_not_fit(const Plan& plan, const TierBytes& peak,
                                            const Profile& profile, const Platform& platform,
                                            const PlanRequest& request);

/// "1234MiB": `bytes` rounded up to what an option can say without falling short.
[[nodiscard]] std::string option_size(Bytes bytes);

}  // namespace athanor
