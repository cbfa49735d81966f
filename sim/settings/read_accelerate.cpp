// SPDX-License-Identifier: Apache-2.0
// Keys, meanings and defaults are those of https://huggingface.co/docs/accelerate (launch, FSDP,
// DeepSpeed), version 1.15.
#include "sim/base/errors.hpp"
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settings_section.hpp"

#include <fmt/format.h>

#include <array>

namespace athanor {
namespace {

constexpr auto kAccelerateKeys = std::to_array<UnmodelledKey>({
    {"megatron_lm_config", "", "layers are divided over GPUs", true},
    {"fp8_config", "", "products are in fp8", true},
    {"use_cpu", "false", "the platform decides where steps run"},
    {"dynamo_config", "", "kernels are the profile's"},
    {"dynamo_backend", "\"NO\"", "kernels are the profile's"},
    {"ipex_config", "", "kernels are the profile's"},
    {"downcast_bf16", "false", "of TPUs alone"},
    {"tpu_use_cluster", "false", "of TPUs alone"},
});

constexpr auto kMeshKeys = std::to_array<UnmodelledKey>({
    {"parallelism_config_tp_size", "1", "layers are divided over GPUs", true},
    {"parallelism_config_cp_size", "1", "sequences are divided over GPUs", true},
    {"parallelism_config_sp_size", "1", "sequences are divided over GPUs", true},
});

constexpr auto kFsdpKeys = std::to_array<UnmodelledKey>({
    {"forward_prefetch", "false", "athanor fetches one unit ahead in any case"},
    {"backward_prefetch", "\"BACKWARD_PRE\"", "athanor fetches one unit ahead"},
    {"backward_prefetch_policy", "\"BACKWARD_PRE\"", "athanor fetches one unit ahead"},
    {"ignored_modules", "", "athanor shards every module"},
    {"mixed_precision_policy", "", "athanor reduces gradients in the profile's type"},
});

/// Returns a section's key with the prefix "fsdp_", which files may leave out.
std::string fsdp_key(const SettingsSection& fsdp, std::string_view name) {
  const std::string full = fmt::format("fsdp_{}", name);
  return fsdp.has(full) || !fsdp.has(std::string(name)) ? full : std::string(name);
}

/// Reads how version 1 divides the model: by a word, or by its number.
void read_strategy(SettingsSection& fsdp, const std::string& key, PeerSettings& settings) {
  constexpr std::array<std::string_view, 5> kNames{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                   "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  const std::string shown = fsdp.has(key) ? fsdp.shown(key) : "FULL_SHARD";
  fsdp.pass_over({key.c_str()});
  std::size_t chosen = 0;
  while (chosen < kNames.size() && shown != kNames[chosen] && shown != std::to_string(chosen + 1)) {
    ++chosen;
  }
  if (chosen == kNames.size()) {
    fsdp.reject(key, fmt::format("unknown strategy '{}'", shown),
                "Use FULL_SHARD, SHARD_GRAD_OP or NO_SHARD.");
  }
  settings.partition.origin = settings.reshard.origin = fsdp.origin(key);
  settings.partition.value = chosen == 2 ? Partition::None : Partition::Parameters;
  settings.reshard.value = chosen != 1 && chosen != 4;
  if (chosen < 3) return;
  settings.notes.push_back(fmt::format(
      "not modelled: {} = {}, which means: each node has a copy of the model; athanor shards over "
      "all GPUs, which is the same on one node",
      text_of(fsdp.origin(key)), shown));
}

void read_partition(SettingsSection& fsdp, PeerSettings& settings) {
  const auto version = fsdp.count(fsdp_key(fsdp, "version"), 1, 1);
  const std::string reshard = fsdp_key(fsdp, "reshard_after_forward");
  if (version.value == 1) {
    const std::string strategy = fsdp_key(fsdp, "sharding_strategy");
    const bool has_strategy = fsdp.has(strategy) || !fsdp.has(reshard);
    read_strategy(fsdp, has_strategy ? strategy : reshard, settings);
    fsdp.pass_over({has_strategy ? reshard.c_str() : strategy.c_str()});
    return;
  }
  settings.partition = {Partition::Parameters, version.origin, false};
  settings.reshard = fsdp.flag(reshard, true);
  const std::string strategy = fsdp_key(fsdp, "sharding_strategy");
  if (fsdp.has(strategy)) {
    settings.notes.push_back(
        fmt::format("not read: {} = {}, as FSDP2 has no strategies; {} says it",
                    text_of(fsdp.origin(strategy)), fsdp.shown(strategy), reshard));
  }
  fsdp.pass_over({"fsdp_sharding_strategy", "sharding_strategy"});
}

void note_wrapping(SettingsSection& fsdp, PeerSettings& settings) {
  const std::string key = fsdp_key(fsdp, "auto_wrap_policy");
  const auto policy = fsdp.word(key, "NO_WRAP");
  if (policy.value == "TRANSFORMER_BASED_WRAP") return;
  settings.notes.push_back(fmt::format(
      "not modelled: {} = {}, which means: {}; athanor gathers layer by layer",
      text_of(policy.origin), policy.value,
      policy.value == "NO_WRAP" ? "the whole model is gathered at once, which takes more memory"
                                : "what is gathered together depends on sizes"));
}

void read_fsdp(SettingsSection fsdp, PeerSettings& settings) {
  settings.peer = Peer::Fsdp;
  read_partition(fsdp, settings);
  const auto offload = fsdp.flag(fsdp_key(fsdp, "offload_params"), false);
  const Home home = offload.value ? Home::Host : Home::Gpu;
  settings.optimizer = settings.parameters = {home, offload.origin, false};
  const auto recompute = fsdp.flag(fsdp_key(fsdp, "activation_checkpointing"), false);
  const auto outputs = fsdp.flag(fsdp_key(fsdp, "activation_checkpointing_offload"), false);
  if (outputs.value && !recompute.value) {
    fsdp.reject("fsdp_activation_checkpointing_offload", "needs fsdp_activation_checkpointing",
                "Set both, or neither.");
  }
  settings.recompute = {{recompute.value ? 1 : 0, outputs.value}, recompute.origin, false};
  note_wrapping(fsdp, settings);
  for (UnmodelledKey entry : kFsdpKeys) {
    const std::string key = fsdp_key(fsdp, entry.key);
    entry.key = key;
    fsdp.unmodelled(std::span(&entry, 1), settings.notes);
  }
  for (const char* name : {"state_dict_type", "cpu_ram_efficient_loading", "sync_module_states",
                           "use_orig_params", "transformer_layer_cls_to_wrap", "min_num_params",
                           "transformer_cls_names_to_wrap", "limit_all_gathers"}) {
    fsdp.pass_over({fsdp_key(fsdp, name).c_str()});
  }
  fsdp.note_other_keys(settings.notes);
}

/// Reads the keys that accelerate has for DeepSpeed itself. What it does not say is DeepSpeed's
/// default, or the script's.
void read_inline_deepspeed(SettingsSection& deepspeed, PeerSettings& settings) {
  const auto stage = deepspeed.count("zero_stage", 2);
  if (stage.is_auto || stage.value > 3) {
    deepspeed.reject("zero_stage", deepspeed.shown("zero_stage") + " is no stage", "Use 0 to 3.");
  }
  settings.partition = {static_cast<Partition>(stage.value), stage.origin, false};
  settings.optimizer = deepspeed.device("offload_optimizer_device");
  settings.parameters = deepspeed.device("offload_param_device");
  settings.accumulation = deepspeed.count("gradient_accumulation_steps", 0, 1);
  settings.accumulation.is_auto = settings.accumulation.value == 0;
  settings.clip = deepspeed.number("gradient_clipping", 0);
}

PeerSettings read_through_deepspeed(
    SettingsSection deepspeed, PeerSettings settings,
    const std::function<std::string(const std::string& path)>& read_file) {
  const auto path = deepspeed.word("deepspeed_config_file", "none");
  if (path.value != "none") {
    settings = read_deepspeed(read_file(path.value), path.value);
    settings.system = "accelerate with DeepSpeed";
  } else {
    read_inline_deepspeed(deepspeed, settings);
  }
  deepspeed.pass_over({"zero3_init_flag", "zero3_save_16bit_model", "offload_param_nvme_path",
                       "offload_optimizer_nvme_path", "deepspeed_multinode_launcher",
                       "deepspeed_hostfile", "deepspeed_exclusion_filter",
                       "deepspeed_inclusion_filter", "deepspeed_moe_layer_cls_names"});
  deepspeed.note_other_keys(settings.notes);
  return settings;
}

void read_precision(SettingsSection& top, PeerSettings& settings) {
  const auto precision = top.has("mixed_precision") && top.shown("mixed_precision") == "false"
                             ? Setting<std::string>{"no", top.origin("mixed_precision"), false}
                             : top.choice("mixed_precision", {"no", "fp16", "bf16", "fp8"});
  top.pass_over({"mixed_precision", "fp16"});
  if (precision.value == "fp8") {
    top.reject("mixed_precision", "fp8 is not modelled", "Set bf16 to see a prediction for it.");
  }
  if (precision.value == "no") return;
  settings.dtype = {DataType::BFloat16, precision.origin, false};
  if (precision.value == "bf16") return;
  settings.notes.push_back(fmt::format(
      "not modelled: {} = fp16, which means: losses are scaled and steps that overflow are "
      "skipped; athanor takes bf16, whose tensors are as large",
      text_of(precision.origin)));
}

/// Sets what the script says and the file does not.
PeerSettings settings_of(const std::string& file) {
  PeerSettings settings(Peer::Ddp, "accelerate", file);
  settings.micro_batch.origin.key = "--micro-batch";
  settings.global_batch.origin.key = "--global-batch";
  settings.clip.origin.key = "--clip";
  settings.recompute.origin.key = "--recompute";
  settings.accumulation.is_auto = true;
  return settings;
}

PeerSettings read_distributed(
    SettingsSection& top, PeerSettings settings,
    const std::function<std::string(const std::string& path)>& read_file) {
  const auto type = top.word("distributed_type", "");
  if (type.value == "DEEPSPEED") {
    settings.peer = Peer::DeepSpeed;
    return read_through_deepspeed(top.section("deepspeed_config"), std::move(settings), read_file);
  }
  if (type.value == "FSDP") {
    read_fsdp(top.section("fsdp_config"), settings);
    return settings;
  }
  const bool replicates =
      type.value == "MULTI_GPU" || type.value == "NO" || type.value == "MULTI_CPU";
  if (!replicates) {
    top.reject("distributed_type", fmt::format("{} is not modelled", top.shown("distributed_type")),
               "Use FSDP, DEEPSPEED, MULTI_GPU or NO.");
  }
  settings.partition.origin = type.origin;
  return settings;
}

SettingsDocument parse_either(std::string_view text, const std::string& file) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  return is_json ? parse_json_settings(text, file) : parse_yaml_settings(text, file);
}

void read_machine(SettingsSection& top, PeerSettings& settings) {
  const auto processes = top.has("num_processes") && top.shown("num_processes") == "-1"
                             ? Setting<std::int64_t>{0, {"--gpus", 0}, true}
                             : top.count("num_processes", 0, 1);
  constexpr std::int64_t kMost = 1 << 16;
  if (processes.value > kMost) {
    top.reject("num_processes", fmt::format("{} is out of range", processes.value),
               fmt::format("Use 1 to {}.", kMost));
  }
  settings.num_gpus = {static_cast<int>(processes.value), processes.origin, false};
  if (processes.value == 0) settings.num_gpus.origin = {"--gpus", 0};
  top.pass_over({"num_processes",
                 "compute_environment",
                 "machine_rank",
                 "num_machines",
                 "gpu_ids",
                 "main_process_ip",
                 "main_process_port",
                 "rdzv_backend",
                 "same_network",
                 "main_training_function",
                 "enable_cpu_affinity",
                 "debug",
                 "deepspeed_config",
                 "fsdp_config",
                 "mpirun_config",
                 "tpu_name",
                 "tpu_zone",
                 "tpu_use_sudo",
                 "command_file",
                 "commands",
                 "tpu_vm",
                 "tpu_env",
                 "tp_config"});
}

}  // namespace

PeerSettings read_accelerate(std::string_view text, const std::string& file,
                             const std::function<std::string(const std::string&)>& read_file) {
  const SettingsDocument document = parse_either(text, file);
  SettingsSection top(document);
  PeerSettings settings = read_distributed(top, settings_of(file), read_file);
  read_machine(top, settings);
  read_precision(top, settings);
  SettingsSection parallel = top.section("parallelism_config");
  parallel.unmodelled(kMeshKeys, settings.notes);
  parallel.note_other_keys(settings.notes);
  top.unmodelled(kAccelerateKeys, settings.notes);
  top.reject_other_keys();
  return settings;
}

}  // namespace athanor
