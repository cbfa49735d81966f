// SPDX-License-Identifier: Apache-2.0
#include "executor/memory/memory_check.hpp"

#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace athanor {
namespace {

/// A size as an option takes it, exact: 40GiB, 512MiB or plain bytes.
std::string size_option(Bytes bytes) {
  if (bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  if (bytes % kMiB == 0) return fmt::format("{}MiB", bytes / kMiB);
  return fmt::format("{}", bytes);
}

/// The command that finds a plan within `limits` for the job that `plan` is for.
std::string tune_command(const Plan& plan, const MemoryLimits& limits) {
  std::string command =
      fmt::format("athanor tune --profile {} --platform {} --gpus {} --global-batch {}",
                  plan.profile_path.empty() ? "PROFILE" : plan.profile_path,
                  plan.platform_path.empty() ? "PLATFORM" : plan.platform_path, plan.world_size,
                  plan.global_batch());
  if (plan.clipping != Clipping::None) command += fmt::format(" --clip {}", plan.max_gradient_norm);
  if (plan.snapshot != Snapshot::None) {
    command += fmt::format(" --snapshot {}", name_of(kSnapshotNames, plan.snapshot));
  }
  if (limits.gpu > 0) command += " --gpu-memory " + size_option(limits.gpu);
  if (limits.host > 0) command += " --host-memory " + size_option(limits.host);
  if (limits.nvme > 0) command += " --nvme " + size_option(limits.nvme);
  return command;
}

}  // namespace

void check_memory(const Profile& profile, const Plan& plan, int ranks_per_node,
                  const MemoryLimits& limits, const std::string& aside) {
  const TierBytes peak = peak_bytes(lower(profile, plan));
  const std::vector<std::string> overflows = memory_overflows(peak, ranks_per_node, limits);
  if (overflows.empty()) return;
  throw InfeasibleError(fmt::format("the plan does not fit: {}{}{}", fmt::join(overflows, "; "),
                                    aside.empty() ? "" : "; ", aside),
                        "To find one that does: " + tune_command(plan, limits));
}

void check_nvme_folder(const Plan& plan, const std::string& folder) {
  if (!uses_nvme(plan) || !folder.empty()) return;
  throw InputError("--nvme", "is missing, and the plan keeps optimizer state on NVMe",
                   "Name a folder on that disk, or make a plan without it (athanor tune without "
                   "--nvme).");
}

}  // namespace athanor
