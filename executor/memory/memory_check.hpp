// SPDX-License-Identifier: Apache-2.0
// Refuses a plan that does not fit, before anything starts.
#pragma once

#include "sim/model/memory.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"

#include <string>

namespace athanor {

/// Throws InfeasibleError when `plan` needs more than `limits`. The message states need, limit and
/// excess of every tier that overflows, and the `athanor tune` command that finds a plan that fits:
/// tune alone gives advice. `aside` says what else holds memory that `limits` do not have, such as
/// "12 GiB are set aside for ..".
void check_memory(const Profile& profile, const Plan& plan, int ranks_per_node,
                  const MemoryLimits& limits, const std::string& aside = "");

/// Throws InputError where `plan` keeps optimizer state on NVMe and no folder is named for it.
void check_nvme_folder(const Plan& plan, const std::string& folder);

}  // namespace athanor
