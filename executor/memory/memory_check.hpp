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
/// tune alone gives advice.
void check_memory(const Profile& profile, const Plan& plan, int ranks_per_node,
                  const MemoryLimits& limits);

/// Throws InputError where `plan` keeps optimizer state on NVMe and no folder is named for it.
void check_nvme_folder(const Plan& plan, const std::string& folder);

/// Returns the memory of this machine that the processes of a job may use: its own, or what its
/// control group allows.
[[nodiscard]] Bytes host_memory_of_this_machine();

}  // namespace athanor
