// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/policies.hpp"

#include "sim/base/errors.hpp"
#include "sim/policy/policy_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace athanor {
namespace {

struct Policy {
  std::string_view name;
  policy::Rule rule;
  std::string_view summary;
};

constexpr auto kPolicies = std::to_array<Policy>({
    {"ddp", policy::ddp, "PyTorch DDP: everything on every GPU, Adam after backward"},
    {"zero1", policy::zero1, "DeepSpeed: optimizer state sharded, whole gradients kept"},
    {"zero2", policy::zero2, "DeepSpeed: optimizer state and gradients sharded"},
    {"zero3", policy::zero3, "DeepSpeed: everything sharded, default prefetch"},
    {"zero2-offload", policy::zero2_offload,
     "DeepSpeed ZeRO-Offload: zero2 with CPU Adam after backward"},
    {"zero3-offload", policy::zero3_offload,
     "DeepSpeed: zero3 with parameters and CPU Adam, after backward, on the host"},
    {"zero-infinity", policy::zero_infinity,
     "DeepSpeed ZeRO-Infinity: zero3-offload with optimizer state, or all, on NVMe"},
    {"zero2-offload-blocking", policy::zero2_offload_blocking,
     "zero2-offload with blocking copies, DeepSpeed's default until August 2026"},
    {"zero3-offload-blocking", policy::zero3_offload_blocking,
     "zero3-offload with blocking copies, DeepSpeed's default until August 2026"},
    {"fsdp2", policy::fsdp2, "PyTorch FSDP2: everything sharded, one unit ahead"},
    {"fsdp2-offload", policy::fsdp2_offload,
     "FSDP2 with CPUOffloadPolicy: parameters and CPU Adam, after backward, on the host"},
    {"elixir", policy::elixir_published,
     "Elixir: its search with its constants, one chunk ahead, blocking copies"},
    {"elixir-calibrated", policy::elixir_calibrated,
     "elixir with the platform's figures in place of its constants"},
    {"elixir-fifo", policy::elixir_fifo,
     "elixir without a trace: first in, first out, no prefetch"},
    {"gemini", policy::gemini,
     "ColossalAI Gemini, placement auto: CPU Adam, parameters moved as memory allows"},
    {"gemini-static", policy::gemini_static,
     "ColossalAI Gemini, placement static: least offload in tenths that fits"},
    {"patrickstar", policy::patrickstar,
     "PatrickStar: chunks moved as memory allows, Adam on the GPU in what is left"},
});

const Policy& find_policy(std::string_view name) {
  const auto* found = std::find_if(kPolicies.begin(), kPolicies.end(),
                                   [&](const Policy& policy) { return policy.name == name; });
  if (found != kPolicies.end()) return *found;
  throw InputError("--policy", fmt::format("unknown policy \"{}\"", name),
                   fmt::format("Use one of {}.", fmt::join(policy_names(), ", ")));
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Policy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

std::string policy_summary(std::string_view policy) {
  return std::string(find_policy(policy).summary);
}

Plan make_policy_plan(std::string_view policy, const Profile& profile, const Platform& platform,
                      const PlanRequest& request) {
  const Policy& chosen = find_policy(policy);
  validate_request(request, profile, platform);
  PlanRequest settled = request;
  settled.adam_threads = adam_thread_choices(request, platform).back();
  const MemoryLimits limits = effective_limits(request, platform);
  const int ranks_per_node = platform.ranks_per_node(request.num_gpus);
  const int all = static_cast<int>(profile.architecture.units.size());
  std::optional<Plan> leanest;
  for (const BatchSplit& batch : batch_splits(request, profile)) {
    for (const int num_recompute : {0, all}) {
      const policy::Input input{
          std::string(chosen.name), profile, platform, settled, batch, num_recompute};
      for (Plan& plan : chosen.rule(input)) {
        if (fits(plan_peak_bytes(profile, plan), ranks_per_node, limits)) return plan;
        leanest = std::move(plan);
      }
    }
  }
  if (leanest) return *leanest;
  throw InfeasibleError(
      fmt::format("policy {} does not fit: its search finds no placement in {} of GPU memory",
                  policy, format_bytes(device_memory(request, platform))),
      "What may fit: a higher --gpu-memory, more --gpus, another --policy");
}

}  // namespace athanor
