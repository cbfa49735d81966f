// SPDX-License-Identifier: Apache-2.0
// The plan that settled settings stand for, by the rules of the policy of their system.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"
#include "sim/settings/peer_settings.hpp"

namespace athanor {

/// Returns the plan of `settings`, which settle_batch and settle_model completed. Its name is
/// their system's. `request` is for their GPUs, batch and clipping. The plan may not fit.
[[nodiscard]] Plan peer_plan(const PeerSettings& settings, const Profile& profile,
                             const Platform& platform, const PlanRequest& request);

}  // namespace athanor
