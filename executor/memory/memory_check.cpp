// SPDX-License-Identifier: Apache-2.0
#include "executor/memory/memory_check.hpp"

#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace athanor {
namespace {

struct Change {
  const char* description;
  std::function<void(Plan&)> apply;
};

void leave_behind(Plan& plan, Activation activation) {
  for (UnitPlan& unit : plan.units) unit.activation = activation;
}

void shard_everything(Plan& plan) {
  for (UnitPlan& unit : plan.units) unit.sharding = Sharding::Sharded;
}

void place_everything(Plan& plan, Home parameters, Home optimizer) {
  for (UnitPlan& unit : plan.units) {
    for (ChunkRun& run : unit.chunks) {
      run.parameters = unit.sharding == Sharding::Sharded ? parameters : Home::Gpu;
      run.optimizer = optimizer;
    }
  }
}

/// From the least to the most costly in time, each on top of those before it.
std::vector<Change> changes() {
  return {
      {"one gradient buffer", [](Plan& plan) { plan.gradient_buffers = 1; }},
      {"two cache slots",
       [](Plan& plan) {
         plan.cache_slots = std::min(plan.cache_slots, 2);
         plan.prefetch_depth = std::min(plan.prefetch_depth, plan.cache_slots - 1);
       }},
      {"recompute in every unit", [](Plan& plan) { leave_behind(plan, Activation::Recompute); }},
      {"recompute in every unit with its output on the host",
       [](Plan& plan) { leave_behind(plan, Activation::Offload); }},
      {"every unit sharded", shard_everything},
      {"the optimizer on the host",
       [](Plan& plan) { place_everything(plan, Home::Gpu, Home::Host); }},
      {"parameters and optimizer on the host",
       [](Plan& plan) { place_everything(plan, Home::Host, Home::Host); }},
      {"parameters on the host and the optimizer on NVMe (--nvme)",
       [](Plan& plan) { place_everything(plan, Home::Host, Home::Nvme); }},
      {"parameters and optimizer on NVMe (--nvme)",
       [](Plan& plan) { place_everything(plan, Home::Nvme, Home::Nvme); }},
  };
}

bool fits(const Profile& profile, const Plan& plan, int ranks_per_node,
          const MemoryLimits& limits) {
  try {
    return memory_overflows(peak_bytes(lower(profile, plan)), ranks_per_node, limits).empty();
  } catch (const InputError&) {
    return false;  // such as a tied unit that needs more slots
  }
}

/// A sentence on what would fit. Alone where one change is enough, else the shortest prefix.
std::string nearest_change(const Profile& profile, const Plan& plan, int ranks_per_node,
                           const MemoryLimits& limits) {
  std::vector<std::string> applied;
  Plan all = plan;
  for (const Change& change : changes()) {
    Plan alone = plan;
    change.apply(alone);
    if (fits(profile, alone, ranks_per_node, limits)) {
      return fmt::format("It would fit with {}.", change.description);
    }
    change.apply(all);
    applied.emplace_back(change.description);
    if (fits(profile, all, ranks_per_node, limits)) {
      return fmt::format("It would fit with {}.", fmt::join(applied, ", "));
    }
  }
  return "No placement of this model fits: use more processes, a smaller micro-batch or a larger "
         "limit.";
}

}  // namespace

void check_memory(const Profile& profile, const Plan& plan, int ranks_per_node,
                  const MemoryLimits& limits) {
  const TierBytes peak = peak_bytes(lower(profile, plan));
  const std::vector<std::string> overflows = memory_overflows(peak, ranks_per_node, limits);
  if (overflows.empty()) return;
  throw InfeasibleError(fmt::format(
      "the plan does not fit: {}. {} athanor tune finds the fastest "
      "plan that fits.",
      fmt::join(overflows, "; "), nearest_change(profile, plan, ranks_per_node, limits)));
}

void check_nvme_folder(const Plan& plan, const std::string& folder) {
  if (!uses_nvme(plan) || !folder.empty()) return;
  throw InputError("--nvme", "is missing, and the plan keeps optimizer state on NVMe",
                   "Name a folder on that disk, or make a plan without it (athanor tune without "
                   "--nvme).");
}

}  // namespace athanor
