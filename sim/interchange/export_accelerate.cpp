// SPDX-License-Identifier: Apache-2.0
// Keys are those of accelerate 1.15, https://huggingface.co/docs/accelerate (FSDP2, DeepSpeed,
// launch).
#include "sim/formats/json_writer.hpp"
#include "sim/interchange/export_plan.hpp"
#include "sim/interchange/plan_outline.hpp"
#include "sim/interchange/unsupported_choices.hpp"

#include <fmt/format.h>

namespace athanor {
namespace {

enum class Backend { None, Ddp, Fsdp2, DeepSpeed };

/// Returns whether FSDP2 expresses the plan. It shards everything, and offloads all or nothing, the
/// optimizer with the parameters.
bool is_fsdp2(const PlanOutline& outline) {
  if (outline.main_sharding() != Sharding::Sharded) return false;
  const bool all_on_gpu = outline.host_optimizer == 0;
  const bool all_on_host = outline.host_parameters == outline.chunks && outline.nvme_optimizer == 0;
  return all_on_gpu || all_on_host;
}

Backend backend_of(const Plan& plan, const PlanOutline& outline) {
  if (is_fsdp2(outline)) return Backend::Fsdp2;
  const bool replicated = outline.main_sharding() == Sharding::Replicated;
  if (!replicated || outline.host_optimizer > 0) return Backend::DeepSpeed;
  return plan.world_size > 1 ? Backend::Ddp : Backend::None;
}

/// Names of accelerate's `distributed_type`.
constexpr NameTable<Backend, 4> kDistributedTypes{{{"NO", Backend::None},
                                                   {"MULTI_GPU", Backend::Ddp},
                                                   {"FSDP", Backend::Fsdp2},
                                                   {"DEEPSPEED", Backend::DeepSpeed}}};

OrderedJson fsdp_json(const Plan& plan, const PlanOutline& outline, UnsupportedChoices& losses) {
  // With as many slots as units, nothing is gathered twice.
  const bool keeps_all = plan.cache_slots >= outline.median_units;
  constexpr int kFsdpSlots = 2;
  if (!keeps_all && (plan.cache_slots != kFsdpSlots || plan.prefetch_depth != 1)) {
    losses.add(
        fmt::format("cache_slots {}, prefetch_depth {}: FSDP2 holds the unit that computes "
                    "and fetches one ahead",
                    plan.cache_slots, plan.prefetch_depth));
  }
  losses.partial_recompute("fsdp_activation_checkpointing is for all");
  const bool recompute = 2 * outline.recompute_units > outline.compute_units;
  return {{"fsdp_version", 2},
          {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
          {"fsdp_reshard_after_forward", !keeps_all},
          {"fsdp_offload_params", outline.host_parameters > 0},
          {"fsdp_activation_checkpointing", recompute},
          {"fsdp_cpu_ram_efficient_loading", true},
          {"fsdp_state_dict_type", "SHARDED_STATE_DICT"}};
}

OrderedJson deepspeed_json(const Plan& plan, const PlanOutline& outline,
                           UnsupportedChoices& losses) {
  const bool sharded = outline.main_sharding() == Sharding::Sharded;
  const bool nvme = outline.keeps_state_on_nvme();
  OrderedJson json{{"zero_stage", sharded ? 3 : 2},
                   {"gradient_accumulation_steps", plan.accumulation},
                   {"offload_optimizer_device", nvme                         ? "nvme"
                                                : outline.host_optimizer > 0 ? "cpu"
                                                                             : "none"},
                   {"offload_param_device", outline.keeps_parameters_on_nvme()       ? "nvme"
                                            : sharded && outline.host_parameters > 0 ? "cpu"
                                                                                     : "none"},
                   {"zero3_init_flag", sharded}};
  if (plan.clipping != Clipping::None) json["gradient_clipping"] = plan.max_gradient_norm;
  losses.add(
      "buckets, prefetch and offload ratio: write them with --as deepspeed, and name that file in "
      "deepspeed_config.deepspeed_config_file instead of the other keys there");
  return json;
}

/// Adds the choices that accelerate takes from the training script, whatever the backend.
void add_script_losses(const Plan& plan, const PlanOutline& outline, Backend backend,
                       UnsupportedChoices& losses) {
  losses.add(fmt::format("micro_batch {}: the batch size of the data loader", plan.micro_batch));
  losses.sequence_length("accelerate");
  losses.schedule("what accelerate starts");
  if (backend != Backend::DeepSpeed) {
    if (plan.accumulation > 1) {
      losses.add(fmt::format("accumulation {}: Accelerator(gradient_accumulation_steps={})",
                             plan.accumulation, plan.accumulation));
    }
    if (plan.clipping != Clipping::None) {
      losses.add(
          fmt::format("max_gradient_norm {}: Accelerator.clip_grad_norm_", plan.max_gradient_norm));
    }
    losses.add(fmt::format("chunk_elements {}: collectives are a module's or a bucket's",
                           plan.chunk_elements));
    losses.gradient_buffers("not to be set");
  }
  if (backend != Backend::Fsdp2 && outline.recompute_units > 0) {
    losses.add(
        fmt::format("activation: {} of {} units recompute; "
                    "model.gradient_checkpointing_enable() is for all",
                    outline.recompute_units, outline.compute_units));
  }
}

}  // namespace

ExportedPlan export_accelerate(const Plan& plan) {
  const PlanOutline whole = outline(plan);
  UnsupportedChoices losses(plan, whole);
  const Backend backend = backend_of(plan, whole);
  OrderedJson json{{"compute_environment", "LOCAL_MACHINE"},
                   {"distributed_type", name_of(kDistributedTypes, backend)},
                   {"num_machines", 1},
                   {"machine_rank", 0},
                   {"num_processes", plan.world_size},
                   {"mixed_precision", plan.dtype == DataType::BFloat16 ? "bf16" : "no"},
                   {"main_training_function", "main"}};
  if (backend == Backend::Fsdp2) json["fsdp_config"] = fsdp_json(plan, whole, losses);
  if (backend == Backend::DeepSpeed) {
    json["deepspeed_config"] = deepspeed_json(plan, whole, losses);
  }
  losses.mixed_sharding("accelerate");
  add_script_losses(plan, whole, backend, losses);
  losses.cpu_adam_threads(
      fmt::format("accelerate launch --num_cpu_threads_per_process {}", plan.cpu_adam_threads));
  losses.compute_threads();
  losses.on_nvme(
      "only DeepSpeed keeps them there: all or none; fill in offload_optimizer_nvme_path and "
      "offload_param_nvme_path");
  losses.offloaded_outputs("accelerate keeps them on the GPU");
  return {dump_json(json), losses.take()};
}

}  // namespace athanor
