// SPDX-License-Identifier: Apache-2.0
// Keys, meanings and defaults are those of https://www.deepspeed.ai/docs/config-json/ and of the
// docstrings of deepspeed.runtime.zero.config, version 0.19.
#include "sim/formats/json_writer.hpp"
#include "sim/interchange/export_plan.hpp"
#include "sim/interchange/plan_outline.hpp"
#include "sim/interchange/unsupported_choices.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {
namespace {

/// Returns the ZeRO stage. Stage 1 shards optimizer state alone; our optimizer-sharded units shard
/// gradients too.
int stage_of(const PlanOutline& outline) {
  switch (outline.main_sharding()) {
    case Sharding::Sharded:
      return 3;
    case Sharding::OptimizerSharded:
      return 2;
    case Sharding::Replicated:
      break;
  }
  // Stage 0 has no offload.
  return outline.host_optimizer > 0 ? 2 : 0;
}

std::int64_t clamped_product(std::int64_t count, std::int64_t elements) {
  const double product = static_cast<double>(count) * static_cast<double>(elements);
  return static_cast<std::int64_t>(std::min(product, static_cast<double>(kMaxCount)));
}

/// Adds the elements that stage 3 keeps gathered and fetches ahead. The largest unit has to fit.
void add_stage3(OrderedJson& zero, const Plan& plan, const PlanOutline& outline) {
  const std::int64_t live =
      std::max(outline.largest_unit, clamped_product(plan.cache_slots, outline.median_unit));
  zero["stage3_max_live_parameters"] = live;
  zero["stage3_max_reuse_distance"] = live;
  zero["stage3_prefetch_bucket_size"] = clamped_product(plan.prefetch_depth, outline.median_unit);
  // Adam runs on one such group at a time; here it is a chunk's shard.
  zero["sub_group_size"] = std::max<std::int64_t>(1, plan.chunk_elements / plan.world_size);
}

void add_offload(OrderedJson& zero, const Plan& plan, const PlanOutline& outline, int stage,
                 UnsupportedChoices& losses) {
  constexpr int kTensors = 4;  // a parameter, its gradient and two moments: a buffer each
  if (outline.host_optimizer > 0) {
    const bool nvme = outline.keeps_state_on_nvme();
    OrderedJson offload{{"device", nvme ? "nvme" : "cpu"}, {"pin_memory", true}};
    if (nvme) {
      offload["buffer_count"] = std::int64_t{kTensors} * plan.nvme_buffers;
      offload["pipeline_read"] = offload["pipeline_write"] = plan.nvme_buffers > 1;
    }
    const double share = outline.host_optimizer_share();
    if (stage == 3 && !nvme) {
      offload["ratio"] = share;
      if (share < 1) {
        losses.add(
            fmt::format("optimizer: which {} of the chunks are on the host; DeepSpeed takes "
                        "the last of its sub-groups",
                        percent(share)));
      }
    } else if (share < 1) {
      losses.add(
          fmt::format("optimizer: {} of the chunks are on the host; DeepSpeed offloads all "
                      "in stages 1 and 2, and on NVMe",
                      percent(share)));
    }
    zero["offload_optimizer"] = std::move(offload);
  }
  if (outline.host_parameters > 0 && stage < 3) {
    losses.add(
        fmt::format("parameters: {} of the chunks are on the host; DeepSpeed offloads them "
                    "in stage 3 alone",
                    percent(outline.host_parameter_share())));
  } else if (outline.host_parameters > 0) {
    const bool nvme = outline.keeps_parameters_on_nvme();
    OrderedJson offload{{"device", nvme ? "nvme" : "cpu"}, {"pin_memory", true}};
    if (nvme) offload["buffer_count"] = plan.parameter_buffers;
    zero["offload_param"] = std::move(offload);
    const double share = outline.host_parameter_share();
    if (share < 1) {
      losses.add(fmt::format("parameters: {} of the chunks are on the host; DeepSpeed offloads all",
                             percent(share)));
    }
  }
}

OrderedJson zero_json(const Plan& plan, const PlanOutline& outline, UnsupportedChoices& losses) {
  const int stage = stage_of(outline);
  OrderedJson zero{{"stage", stage}};
  if (stage == 0) return zero;
  zero["overlap_comm"] = true;
  zero["contiguous_gradients"] = true;
  zero["reduce_bucket_size"] = plan.chunk_elements;
  if (stage < 3) zero["allgather_bucket_size"] = plan.chunk_elements;
  if (stage == 3) add_stage3(zero, plan, outline);
  add_offload(zero, plan, outline, stage, losses);
  if (outline.main_sharding() == Sharding::Replicated) {
    losses.add("sharding: replicated; DeepSpeed offloads the optimizer in stages 1 to 3 alone: 2");
  }
  return zero;
}

void add_deepspeed_losses(const Plan& plan, const PlanOutline& outline,
                          UnsupportedChoices& losses) {
  losses.mixed_sharding("DeepSpeed");
  if (outline.recompute_units > 0) {
    losses.add(
        fmt::format("activation: {} of {} units recompute; DeepSpeed leaves to the model "
                    "which of its layers call deepspeed.checkpointing",
                    outline.recompute_units, outline.compute_units));
  }
  losses.gradient_buffers("DeepSpeed holds buckets, reduce_bucket_size elements each");
  losses.cpu_adam_threads(fmt::format("set OMP_NUM_THREADS={}", plan.cpu_adam_threads));
  losses.compute_threads();
  losses.on_nvme("DeepSpeed keeps all of it there or none, in stage 3 alone; fill in nvme_path");
  losses.offloaded_outputs("DeepSpeed's cpu_checkpointing is for partitioned activations alone");
  losses.sequence_length("DeepSpeed");
  losses.schedule("DeepSpeed");
  if (stage_of(outline) == 0) {
    losses.add(fmt::format("chunk_elements {}: of stages 1 to 3 alone", plan.chunk_elements));
  }
}

}  // namespace

ExportedPlan export_deepspeed(const Plan& plan) {
  const PlanOutline whole = outline(plan);
  UnsupportedChoices losses(plan, whole);
  OrderedJson json{{"train_batch_size", plan.global_batch()},
                   {"train_micro_batch_size_per_gpu", plan.micro_batch},
                   {"gradient_accumulation_steps", plan.accumulation}};
  if (plan.dtype == DataType::BFloat16) {
    json["bf16"] = {{"enabled", true}};
    // Stage 0 accumulates gradients in the parameters' type alone.
    if (plan.accumulation > 1 && stage_of(whole) > 0) {
      json["data_types"] = {{"grad_accum_dtype", "fp32"}};
    } else if (plan.accumulation > 1) {
      losses.add("dtype bfloat16: DeepSpeed's stage 0 accumulates gradients in bfloat16");
    }
  }
  json["gradient_clipping"] = plan.clipping == Clipping::None ? 0.0 : plan.max_gradient_norm;
  json["zero_optimization"] = zero_json(plan, whole, losses);
  if (whole.recompute_units > 0) {
    json["activation_checkpointing"] = {{"number_checkpoints", whole.recompute_units}};
  }
  add_deepspeed_losses(plan, whole, losses);
  return {dump_json(json), losses.take()};
}

}  // namespace athanor
