// SPDX-License-Identifier: Apache-2.0
// Sections and keys are those of the docstrings of torchtitan.config.job_config, version 0.2.2.
#include "sim/interchange/export_plan.hpp"
#include "sim/interchange/plan_outline.hpp"
#include "sim/interchange/unsupported_choices.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {
namespace {

std::string training_text(const Plan& plan, const PlanOutline& outline) {
  std::string text = "[training]\n";
  text += fmt::format("local_batch_size = {}\n", plan.micro_batch);
  text += fmt::format("global_batch_size = {}\n", plan.global_batch());
  text += fmt::format("seq_len = {}\n", plan.sequence_length);
  // torchtitan always clips; no norm is above infinity.
  text += plan.clipping == Clipping::None
              ? std::string("max_norm = inf\n")
              : fmt::format("max_norm = {:#}\n", plan.max_gradient_norm);
  text += fmt::format("enable_cpu_offload = {}\n", 2 * outline.host_optimizer > outline.chunks);
  text += "dtype = \"float32\"\n";
  text += fmt::format("mixed_precision_param = \"{}\"\n",
                      plan.dtype == DataType::BFloat16 ? "bfloat16" : "float32");
  text += "mixed_precision_reduce = \"float32\"\n";
  return text;
}

std::string parallelism_text(const Plan& plan, const PlanOutline& outline) {
  const bool replicated = outline.main_sharding() == Sharding::Replicated;
  // Parameters that stay whole on every rank are never resharded.
  const bool keeps_all = outline.main_sharding() == Sharding::OptimizerSharded ||
                         plan.cache_slots >= outline.median_units;
  std::string text = "[parallelism]\n";
  text += fmt::format("data_parallel_replicate_degree = {}\n", replicated ? plan.world_size : 1);
  text += fmt::format("data_parallel_shard_degree = {}\n", replicated ? 1 : plan.world_size);
  text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", keeps_all ? "never" : "always");
  return text;
}

/// Returns the section on recompute. "selective" with a number n recomputes every nth layer.
std::string checkpoint_text(const PlanOutline& outline) {
  std::string text = "[activation_checkpoint]\n";
  const std::int64_t units = outline.compute_units;
  const std::int64_t count = outline.recompute_units;
  if (count == 0) return text + "mode = \"none\"\n";
  const std::int64_t every = std::max<std::int64_t>(1, (units + count / 2) / count);
  if (every == 1) return text + "mode = \"full\"\n";
  return text + fmt::format("mode = \"selective\"\nselective_ac_option = \"{}\"\n", every);
}

void add_torchtitan_losses(const Plan& plan, const PlanOutline& outline,
                           UnsupportedChoices& losses) {
  losses.mixed_sharding("torchtitan");
  if (outline.main_sharding() == Sharding::OptimizerSharded) {
    losses.add(
        "sharding: optimizer-sharded; torchtitan shards parameters too and keeps them "
        "gathered from forward to backward");
  }
  const double share = outline.host_optimizer_share();
  if (outline.host_optimizer > 0 && outline.host_parameters != outline.chunks) {
    losses.add(
        fmt::format("offload: {} of the optimizer and {} of the parameters are on the host; "
                    "torchtitan offloads both or neither",
                    percent(share), percent(outline.host_parameter_share())));
  }
  if (outline.host_optimizer > 0 && plan.world_size == 1) {
    losses.add("offload: torchtitan offloads through FSDP, which it does not use on one GPU");
  }
  constexpr int kFsdpSlots = 2;
  const bool as_fsdp2 = plan.cache_slots == kFsdpSlots && plan.prefetch_depth == 1;
  if (outline.sharded > 0 && plan.cache_slots < outline.median_units && !as_fsdp2) {
    losses.add(
        fmt::format("cache_slots {}, prefetch_depth {}: FSDP2 holds the unit that computes "
                    "and fetches one ahead",
                    plan.cache_slots, plan.prefetch_depth));
  }
  losses.partial_recompute("torchtitan recomputes all or every nth");
  losses.add(fmt::format("chunk_elements {}: collectives are a module's", plan.chunk_elements));
  losses.gradient_buffers("not to be set");
  if (plan.dtype == DataType::BFloat16) {
    losses.add("dtype bfloat16: torchtitan reduces gradients in float32");
  }
  losses.schedule("torchtitan");
  losses.cpu_adam_threads(fmt::format("set OMP_NUM_THREADS={}", plan.cpu_adam_threads));
  losses.compute_threads();
  losses.on_nvme("torchtitan keeps them in host memory");
  losses.offloaded_outputs("torchtitan keeps them on the GPU");
}

}  // namespace

ExportedPlan export_torchtitan(const Plan& plan) {
  const PlanOutline whole = outline(plan);
  UnsupportedChoices losses(plan, whole);
  add_torchtitan_losses(plan, whole, losses);
  const std::string text = fmt::format(
      "# torchtitan 0.2; add [model] with name and flavor. Start with torchrun "
      "--nproc_per_node {}.\n\n{}\n{}\n{}",
      plan.world_size, training_text(plan, whole), parallelism_text(plan, whole),
      checkpoint_text(whole));
  return {text, losses.take()};
}

}  // namespace athanor
