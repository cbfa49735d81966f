// SPDX-License-Identifier: Apache-2.0
// Keys, meanings and defaults are those of https://www.deepspeed.ai/docs/config-json/ and of the
// docstrings of deepspeed.runtime.zero.config, version 0.19.
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settings_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace athanor {
namespace {

constexpr auto kDeepSpeedKeys = std::to_array<UnmodelledKey>({
    {"sequence_parallel_size", "1", "sequences are divided over GPUs", true},
    {"pipeline", "", "the model is divided into stages over GPUs", true},
    {"expert_parallel", "", "experts are divided over GPUs", true},
    {"amp", "", "Apex keeps its own copies of the weights", true},
    {"sparse_attention", "", "attention skips blocks", true},
    {"compression_training", "", "layers are quantised or pruned as they train", true},
    {"weight_quantization", "", "weights are quantised", true},
    {"quantize_training", "", "weights are quantised", true},
    {"progressive_layer_drop", "", "steps skip layers", true},
    {"data_efficiency", "", "batches and layers change from step to step", true},
    {"curriculum_learning", "", "sequences change their length from step to step", true},
    {"hybrid_engine", "", "steps alternate with generation", true},
    {"eigenvalue", "", "steps compute eigenvalues", true},
    {"elasticity", "", "the batch follows the number of GPUs", true},
    {"sparse_gradients", "false", "gradients of embeddings travel as rows; athanor sends all"},
    {"torch_autocast", "",
     "weights are cast at each use; athanor keeps them in the profile's type"},
    {"communication_data_type", "", "athanor reduces gradients in the profile's type"},
    {"fp32_allreduce", "false", "athanor reduces gradients in the profile's type"},
    {"disable_allgather", "false", "parameters are broadcast in turn; athanor gathers them"},
    {"aio", "", "athanor reads and writes files as the platform measured it"},
    {"compile", "", "kernels are the profile's"},
    {"managed_gradient_accumulation", "true", "the script counts micro-batches"},
});

constexpr auto kZeroKeys = std::to_array<UnmodelledKey>({
    {"zero_hpz_partition_size", "1", "each node keeps a second copy of the weights", true},
    {"mics_shard_size", "-1", "weights are divided over a part of the GPUs", true},
    {"zero_quantized_weights", "false", "weights travel quantised", true},
    {"zero_quantized_nontrainable_weights", "false", "frozen weights are quantised", true},
    {"zero_quantized_gradients", "false", "gradients travel quantised", true},
    {"zeropp_loco_param", "", "gradients travel quantised", true},
    {"zenflow", "", "the CPU updates late, so steps use older weights", true},
    {"legacy_stage1", "false", "an older stage 1", true},
    {"overlap_comm", "true", "athanor overlaps collectives with computing"},
    {"reduce_scatter", "true", "athanor sends each GPU its shard of gradients alone"},
    {"contiguous_gradients", "true", "athanor keeps the gradients of a unit together"},
    {"reduce_bucket_size", "500000000", "athanor reduces a unit at a time"},
    {"allgather_bucket_size", "500000000", "athanor gathers a unit at a time"},
    {"sub_group_size", "1000000000", "Adam runs on a unit's shard at a time"},
    {"allgather_partitions", "true", "athanor gathers parameters, and does not broadcast them"},
    {"round_robin_gradients", "false", "athanor gives each GPU its shard of each unit"},
    {"stage3_param_persistence_threshold", "100000", "athanor shards small parameters, too"},
    {"stage3_model_persistence_threshold", "9223372036854775807",
     "athanor shards small parameters, too"},
    {"stage3_max_reuse_distance", "1000000000",
     "athanor releases by the next use, within stage3_max_live_parameters"},
    {"stage3_use_all_reduce_for_fetch_params", "false", "athanor gathers with all-gather"},
    {"stage3_allgather_sequential", "false", "athanor gathers a unit at once"},
    {"stage3_module_granularity_threshold", "0", "athanor fetches units"},
    {"leaf_module", "", "athanor fetches units"},
    {"compute_grad_norm", "true", "athanor computes the norm where it clips"},
    {"cpu_offload_use_pin_memory", "", "an older key: see pin_memory of offload_optimizer"},
});

constexpr auto kOffloadKeys = std::to_array<UnmodelledKey>({
    {"super_offload", "false", "SuperOffload updates ahead of the norm", true},
    {"cpuadam_cores_perc", "0.8", "of super_offload; --adam-threads chooses threads"},
    {"fast_init", "false", "of the first step alone"},
    {"buffer_size", "100000000", "athanor's buffers hold a unit's shard"},
    {"max_in_cpu", "1000000000", "athanor keeps parameters of NVMe in buffers alone"},
});

/// Reads the older switches cpu_offload and cpu_offload_param, which stand for whole sections.
void read_older_offload(SettingsSection& zero, const char* key, Setting<Home>& home) {
  const Setting<bool> flag = zero.flag(key, false);
  if (flag.value) home = {Home::Host, flag.origin, false};
}

void read_optimizer_offload(SettingsSection& zero, PeerSettings& settings) {
  SettingsSection offload = zero.section("offload_optimizer");
  settings.optimizer = offload.device("device");
  settings.optimizer_share = offload.number("ratio", 1, 1);
  settings.pinned = offload.flag("pin_memory", true);
  const bool read_ahead = offload.flag("pipeline_read", false).value;
  const bool write_behind = offload.flag("pipeline_write", false).value;
  settings.nvme_buffers = {1 + (read_ahead ? 1 : 0) + (write_behind ? 1 : 0),
                           offload.origin("pipeline_read"), false};
  offload.pass_over({"nvme_path", "buffer_count"});
  offload.unmodelled(kOffloadKeys, settings.notes);
  offload.reject_other_keys();
  read_older_offload(zero, "cpu_offload", settings.optimizer);
}

void read_parameter_offload(SettingsSection& zero, PeerSettings& settings) {
  SettingsSection offload = zero.section("offload_param");
  settings.parameters = offload.device("device");
  const Setting<bool> pinned = offload.flag("pin_memory", true);
  const bool blocks = !pinned.value && settings.parameters.value != Home::Gpu;
  if (blocks && settings.pinned.value) settings.pinned = pinned;
  const auto buffers = offload.count("buffer_count", 5, 1);
  settings.parameter_buffers = {static_cast<int>(std::min<std::int64_t>(buffers.value, 4096)),
                                buffers.origin, false};
  offload.pass_over({"nvme_path"});
  offload.unmodelled(kOffloadKeys, settings.notes);
  offload.reject_other_keys();
  read_older_offload(zero, "cpu_offload_param", settings.parameters);
}

void read_zero(SettingsSection zero, PeerSettings& settings) {
  const auto stage = zero.count("stage", 0);
  if (stage.is_auto || stage.value > 3) {
    zero.reject("stage", zero.shown("stage") + " is no stage", "Use 0 to 3.");
  }
  settings.partition = {static_cast<Partition>(stage.value), stage.origin, false};
  read_optimizer_offload(zero, settings);
  read_parameter_offload(zero, settings);
  settings.live_elements = zero.count("stage3_max_live_parameters", 1'000'000'000);
  settings.prefetch_elements = zero.count("stage3_prefetch_bucket_size", 50'000'000);
  zero.unmodelled(kZeroKeys, settings.notes);
  zero.pass_over({"load_from_fp32_weights", "elastic_checkpoint",
                  "stage3_gather_16bit_weights_on_model_save",
                  "stage3_gather_fp16_weights_on_model_save", "ignore_unused_parameters",
                  "memory_efficient_linear", "override_module_apply", "log_trace_cache_warnings",
                  "enable_sanity_checks", "pipeline_loading_checkpoint", "parameter_alignment",
                  "mics_hierarchical_params_gather", "use_multi_rank_bucket_allreduce",
                  "save_muon_momentum_buffer_in_memory", "stage3_partition_stream_chunk_size"});
  zero.reject_other_keys();
}

void read_types(SettingsSection& top, PeerSettings& settings) {
  const char* const name = top.has("bfloat16") ? "bfloat16" : "bf16";
  SettingsSection bf16 = top.section(name);
  const Setting<bool> enabled = bf16.flag("enabled", false);
  constexpr auto kState = std::to_array<UnmodelledKey>({
      {"bf16_master_weights_and_grads", "false", "athanor keeps state in fp32", true},
      {"bf16_optimizer_states", "false", "athanor keeps state in fp32", true},
  });
  bf16.unmodelled(kState, settings.notes);
  SettingsSection fp16 = top.section("fp16");
  const Setting<bool> half = fp16.flag("enabled", false);
  settings.dtype.origin = enabled.origin;
  if (enabled.value && half.value) {
    top.reject("fp16", "is on beside bf16", "Switch one of the two off.");
  }
  if (half.value) {
    settings.notes.push_back(
        fmt::format("not modelled: {} = true, which means: losses are scaled and steps that "
                    "overflow are skipped; athanor takes bf16, whose tensors are as large",
                    text_of(half.origin)));
    settings.dtype = {DataType::BFloat16, half.origin, false};
    return;
  }
  // A script's own option decides where the file does not.
  settings.dtype.is_auto = enabled.is_auto || half.is_auto || enabled.origin.line == 0;
  if (!settings.dtype.is_auto) {
    settings.dtype.value = enabled.value ? DataType::BFloat16 : DataType::Float32;
  }
}

void read_adam(SettingsSection optimizer, PeerSettings& settings) {
  const Setting<std::string> type = optimizer.word("type", "AdamW");
  std::string name = type.value;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 5> kAdam{"adam", "adamw", "fusedadam", "cpuadam",
                                                  "deepspeedcpuadam"};
  if (std::ranges::find(kAdam, name) == kAdam.end()) {
    optimizer.reject("type",
                     fmt::format("{} is not modelled: athanor's state is Adam's", type.value),
                     "Set Adam or AdamW to see a prediction for it.");
  }
  SettingsSection params = optimizer.section("params");
  constexpr auto kNorm = std::to_array<UnmodelledKey>(
      {{"max_grad_norm", "0", "clips; athanor reads gradient_clipping alone"}});
  params.unmodelled(kNorm, settings.notes);
}

void read_recompute(SettingsSection& top, PeerSettings& settings) {
  SettingsSection checkpoints = top.section("activation_checkpointing");
  settings.recompute.origin = top.origin("activation_checkpointing");
  settings.recompute.value.offloads_outputs = checkpoints.flag("cpu_checkpointing", false).value;
  settings.recompute.value.every = settings.recompute.origin.line > 0 ? 1 : 0;
  constexpr auto kKeys = std::to_array<UnmodelledKey>({
      {"number_checkpoints", "", "athanor recomputes every unit but the last"},
      {"partition_activations", "false", "has an effect with tensor parallelism alone"},
      {"contiguous_memory_optimization", "false", "athanor's memory has no gaps"},
      {"synchronize_checkpoint_boundary", "false", "the GPU is waited for at each checkpoint"},
  });
  checkpoints.unmodelled(kKeys, settings.notes);
  checkpoints.pass_over({"profile"});
  checkpoints.note_other_keys(settings.notes);
}

void read_batch(SettingsSection& top, PeerSettings& settings) {
  settings.global_batch = top.count("train_batch_size", 0, 1);
  settings.micro_batch = top.count("train_micro_batch_size_per_gpu", 0, 1);
  settings.accumulation = top.count("gradient_accumulation_steps", 0, 1);
  settings.clip = top.number("gradient_clipping", 0);
}

void reject_parallelism(SettingsSection& top) {
  SettingsSection tensor = top.section("tensor_parallel");
  if (tensor.count("autotp_size", 0).value > 1) {
    tensor.reject("autotp_size",
                  tensor.shown("autotp_size") + " is not modelled: layers are divided over GPUs",
                  "Take the key out to see a prediction without it.");
  }
}

void read_data_types(SettingsSection types, PeerSettings& settings) {
  constexpr auto kTypes = std::to_array<UnmodelledKey>({
      {"grad_accum_dtype", "\"fp32\"", "athanor adds gradients of micro-batches up in fp32"},
      {"param_dtype", "", "parameters have the profile's type"},
  });
  types.unmodelled(kTypes, settings.notes);
}

}  // namespace

PeerSettings read_deepspeed(std::string_view text, const std::string& file) {
  const SettingsDocument document = parse_json_settings(text, file);
  SettingsSection top(document);
  PeerSettings settings(Peer::DeepSpeed, "DeepSpeed", file);
  settings.num_gpus.origin.key = "--gpus";
  read_batch(top, settings);
  read_types(top, settings);
  read_zero(top.section("zero_optimization"), settings);
  read_adam(top.section("optimizer"), settings);
  read_recompute(top, settings);
  reject_parallelism(top);
  read_data_types(top.section("data_types"), settings);
  top.unmodelled(kDeepSpeedKeys, settings.notes);
  top.pass_over({"steps_per_print",
                 "wall_clock_breakdown",
                 "memory_breakdown",
                 "dump_state",
                 "scheduler",
                 "tensorboard",
                 "wandb",
                 "csv_monitor",
                 "comet",
                 "monitor_config",
                 "comms_logger",
                 "flops_profiler",
                 "autotuning",
                 "checkpoint",
                 "dataloader_drop_last",
                 "zero_allow_untested_optimizer",
                 "zero_force_ds_cpu_optimizer",
                 "log_level",
                 "disable_python_gc",
                 "vocabulary_size",
                 "timers",
                 "nebula",
                 "prescale_gradients",
                 "gradient_predivide_factor",
                 "gradient_allreduce_op",
                 "seed",
                 "datastates_ckpt",
                 "use_data_before_expert_parallelism",
                 "seq_parallel_communication_data_type",
                 "graph_harvesting",
                 "zero_optimization"});
  top.note_other_keys(settings.notes);
  return settings;
}

}  // namespace athanor
