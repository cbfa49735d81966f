// SPDX-License-Identifier: Apache-2.0
#include "sim/settings/peer_plan.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/policy/policy_rules.hpp"

#include <algorithm>

namespace athanor {
namespace {

/// Returns the plan of a policy with everything on the GPU. Only its partition is theirs.
Plan partitioned_plan(const PeerSettings& settings, const policy::Input& in) {
  switch (settings.partition.value) {
    case Partition::None:
      return policy::ddp(in).front();
    case Partition::Optimizer:
      return policy::zero1(in).front();
    case Partition::Gradients:
      return policy::zero2(in).front();
    case Partition::Parameters:
      break;
  }
  if (settings.peer != Peer::DeepSpeed) return policy::fsdp2(in).front();
  return policy::zero3_with(in, kAllOnGpu,
                            {settings.prefetch_elements.value, settings.live_elements.value})
      .front();
}

/// Places units in execution order: the first ones keep the share of state that stays on the GPU.
/// DeepSpeed's sub-groups are in the same order.
void place_units(Plan& plan, const PeerSettings& settings, const Architecture& architecture) {
  std::int64_t total = 0, elements = 0;
  for (const Unit& unit : architecture.units) total += unit.num_elements();
  const double on_gpu = (1 - settings.optimizer_share.value) * static_cast<double>(total);
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    elements += architecture.units[i].num_elements();
    const bool stays = static_cast<double>(elements) <= on_gpu;
    const Home optimizer = stays ? Home::Gpu : settings.optimizer.value;
    place(plan.units[i], num_chunks(architecture.units[i], plan.units[i], plan),
          {settings.parameters.value, optimizer});
  }
}

/// Sets what recomputes. Every nth is counted from the first block on, after the embedding.
void set_recompute(Plan& plan, const RecomputeRule& rule) {
  const int all = static_cast<int>(plan.units.size());
  if (rule.every == 1) recompute_leading(plan, all, rule.offloads_outputs ? all : 0);
  if (rule.every <= 1) return;
  for (std::size_t i = 1; i + 1 < plan.units.size(); ++i) {
    if (i % static_cast<std::size_t>(rule.every) != 0) continue;
    plan.units[i].activation = rule.offloads_outputs ? Activation::Offload : Activation::Recompute;
  }
}

}  // namespace

Plan peer_plan(const PeerSettings& settings, const Profile& profile, const Platform& platform,
               const PlanRequest& request) {
  PlanRequest settled = request;
  settled.adam_threads = adam_thread_choices(request, platform).back();
  const policy::Input in{settings.system,
                         profile,
                         platform,
                         settled,
                         {settings.micro_batch.value, settings.accumulation.value}};
  Plan plan = partitioned_plan(settings, in);
  place_units(plan, settings, profile.architecture);
  set_recompute(plan, settings.recompute.value);
  if (!settings.reshard.value) {
    plan.cache_slots = std::max(plan.cache_slots, largest_class_size(profile.architecture));
  }
  if (!settings.pinned.value) plan.schedule = policy::kBlocking;
  plan.nvme_buffers = settings.nvme_buffers.value;
  plan.parameter_buffers = settings.parameter_buffers.value;
  return plan;
}

}  // namespace athanor
