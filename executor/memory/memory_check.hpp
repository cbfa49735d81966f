// SPDX-License-Identifier: Apache-2.0
// Refuses a plan that does not fit, before anything starts.
#pragma once

#include "sim/model/memory.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"

#include <string>

namespace athanor {

/// Throws InfeasibleError when `plan` needs more than `limits`: which tier, how much, and the
/// nearest change of the plan that would fit.
void check_memory(const Profile& profile, const Plan& plan, int ranks_per_node,
                  const MemoryLimits& limits);

/// Throws InputError where `plan` keeps optimizer state on NVMe and no folder is named for it.
void check_nvme_folder(const Plan& plan, const std::string& folder);

}  // namespace athanor
