// SPDX-License-Identifier: Apache-2.0
// Sections, keys and defaults are those of the docstrings of torchtitan.config.job_config, version
// 0.2.2.
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settings_section.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace athanor {
namespace {

constexpr auto kParallelKeys = std::to_array<UnmodelledKey>({
    {"tensor_parallel_degree", "1", "layers are divided over GPUs", true},
    {"pipeline_parallel_degree", "1", "the model is divided into stages over GPUs", true},
    {"context_parallel_degree", "1", "sequences are divided over GPUs", true},
    {"expert_parallel_degree", "1", "experts are divided over GPUs", true},
    {"expert_tensor_parallel_degree", "1", "experts are divided over GPUs", true},
    {"enable_compiled_autograd", "false", "kernels are the profile's"},
});

constexpr auto kTrainingKeys = std::to_array<UnmodelledKey>({
    {"dtype", "\"float32\"", "state is in this type, too; athanor keeps it in fp32"},
    {"compile", "false", "kernels are the profile's"},
});

constexpr auto kOptimizerKeys = std::to_array<UnmodelledKey>({
    {"implementation", "\"fused\"", "Adam runs by more kernels; athanor takes the platform's"},
    {"early_step_in_backward", "false", "Adam runs in backward; athanor runs it afterwards"},
});

void read_training(SettingsSection training, PeerSettings& settings) {
  settings.micro_batch = training.count("local_batch_size", 8, 1);
  const bool is_whole =
      !training.has("global_batch_size") || training.shown("global_batch_size").starts_with('-');
  if (!is_whole) settings.global_batch = training.count("global_batch_size", 0, 1);
  settings.global_batch.origin = training.origin("global_batch_size");
  settings.sequence_length = training.count("seq_len", 2048, 1);
  settings.clip = training.number("max_norm", 1, std::numeric_limits<double>::infinity());
  if (std::isinf(settings.clip.value)) settings.clip.value = 0;  // no norm is above infinity
  const auto offload = training.flag("enable_cpu_offload", false);
  const Home home = offload.value ? Home::Host : Home::Gpu;
  settings.optimizer = settings.parameters = {home, offload.origin, false};
  const auto type = training.choice("mixed_precision_param", {"bfloat16", "float32"});
  settings.dtype = {type.value == "bfloat16" ? DataType::BFloat16 : DataType::Float32, type.origin,
                    false};
  training.unmodelled(kTrainingKeys, settings.notes);
  training.pass_over({"dataset", "dataset_path", "steps", "mixed_precision_reduce", "gc_freq",
                      "gc_debug", "dataloader", "global_batch_size", "seed", "deterministic"});
  training.reject_other_keys();
}

/// Reads both degrees of data parallelism. The shard degree -1 is all GPUs that are left.
void read_degrees(SettingsSection& parallel, PeerSettings& settings) {
  constexpr std::int64_t kMost = 1 << 8;
  const auto replicate = parallel.count("data_parallel_replicate_degree", 1, 1);
  const bool rest = !parallel.has("data_parallel_shard_degree") ||
                    parallel.shown("data_parallel_shard_degree") == "-1";
  const auto shard = rest ? Setting<std::int64_t>{0, {}, false}
                          : parallel.count("data_parallel_shard_degree", 1, 1);
  if (replicate.value > 1 && shard.value != 1) {
    parallel.reject("data_parallel_replicate_degree",
                    fmt::format("{} beside shards is not modelled: the model is copied and divided",
                                replicate.value),
                    "Set data_parallel_shard_degree to 1, or this degree.");
  }
  if (replicate.value > kMost || shard.value > kMost * kMost) {
    parallel.reject("data_parallel_shard_degree", "more GPUs than can be", "Use fewer.");
  }
  const bool shards = shard.value != 1;
  settings.partition = {shards ? Partition::Parameters : Partition::None,
                        parallel.origin("data_parallel_shard_degree"), false};
  settings.num_gpus = {
      static_cast<int>(replicate.value * shard.value),
      parallel.origin(shards ? "data_parallel_shard_degree" : "data_parallel_replicate_degree"),
      false};
  if (rest) settings.num_gpus = {0, {"--gpus", 0}, false};
}

void read_parallelism(SettingsSection parallel, PeerSettings& settings) {
  read_degrees(parallel, settings);
  const auto reshard =
      parallel.choice("fsdp_reshard_after_forward", {"default", "always", "never"});
  settings.reshard = {reshard.value != "never", reshard.origin, false};
  parallel.unmodelled(kParallelKeys, settings.notes);
  parallel.pass_over(
      {"data_parallel_shard_degree", "disable_loss_parallel", "enable_async_tensor_parallel",
       "module_fqns_per_model_part", "pipeline_parallel_first_stage_less_layers",
       "pipeline_parallel_last_stage_less_layers", "pipeline_parallel_layers_per_stage",
       "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv",
       "pipeline_parallel_microbatch_size", "pipeline_parallel_split_points",
       "pipeline_parallel_expert_parallel_overlap", "context_parallel_load_balancer",
       "context_parallel_rotate_method", "expert_parallel_comm_backend"});
  parallel.reject_other_keys();
}

/// Reads "selective": every nth layer, or "op", which recomputes cheap operations alone.
void read_selective(SettingsSection& checkpoint, PeerSettings& settings) {
  const auto option = checkpoint.word("selective_ac_option", "2");
  const std::string& text = option.value;
  int every = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), every);
  const bool is_number = status == std::errc{} && end == text.data() + text.size();
  if (is_number && every >= 1) {
    settings.recompute.value.every = every;
    settings.recompute.origin =
        checkpoint.has("selective_ac_option") ? option.origin : settings.recompute.origin;
    return;
  }
  if (text != "op") {
    checkpoint.reject("selective_ac_option", fmt::format("unknown value '{}'", text),
                      "Use op, or a number: every nth layer recomputes.");
  }
  settings.recompute.value.every = 1;
  settings.notes.push_back(fmt::format(
      "not modelled: {} = op, which means: products are kept and the rest is recomputed; athanor "
      "recomputes whole layers, which takes longer and less memory",
      text_of(option.origin)));
}

void read_checkpoint(SettingsSection checkpoint, PeerSettings& settings) {
  const auto mode = checkpoint.choice("mode", {"selective", "full", "memory_budget", "none"});
  settings.recompute.origin = mode.origin;
  if (mode.value == "memory_budget") {
    checkpoint.reject("mode", "memory_budget is not modelled: the compiler chooses",
                      "Set full, selective or none to see a prediction for it.");
  }
  if (mode.value == "full") settings.recompute.value.every = 1;
  if (mode.value == "selective") read_selective(checkpoint, settings);
  checkpoint.pass_over({"selective_ac_option", "per_op_sac_force_recompute_mm_shapes_by_fqns",
                        "early_stop", "memory_budget", "visualize_memory_budget_pareto",
                        "preserve_rng_state", "determinism_check", "debug"});
  checkpoint.reject_other_keys();
}

void read_optimizer(SettingsSection optimizer, PeerSettings& settings) {
  (void)optimizer.choice("name", {"AdamW", "Adam"});
  optimizer.unmodelled(kOptimizerKeys, settings.notes);
  optimizer.pass_over({"lr", "beta1", "beta2", "eps", "weight_decay"});
  optimizer.reject_other_keys();
}

void read_model(const SettingsSection& model) {
  const std::string converters = model.shown("converters");
  if (model.has("converters") && converters != "[]") {
    model.reject("converters",
                 fmt::format("{} is not modelled: products are quantised", converters),
                 "Take the key out to see a prediction without it.");
  }
}

}  // namespace

PeerSettings read_torchtitan(std::string_view text, const std::string& file) {
  const SettingsDocument document = parse_toml_settings(text, file);
  SettingsSection top(document);
  PeerSettings settings(Peer::Fsdp, "torchtitan", file);
  settings.accumulation.is_auto = true;
  read_training(top.section("training"), settings);
  if (settings.global_batch.value == 0) settings.accumulation = {1, {}, false};
  read_parallelism(top.section("parallelism"), settings);
  read_checkpoint(top.section("activation_checkpoint"), settings);
  read_optimizer(top.section("optimizer"), settings);
  read_model(top.section("model"));
  constexpr auto kSections = std::to_array<UnmodelledKey>({
      {"compile", "", "kernels are the profile's"},
      {"fault_tolerance", "", "steps wait for other groups of replicas"},
      {"float8", "", "of the converter float8 alone"},
      {"quantize", "", "of converters alone"},
  });
  top.unmodelled(kSections, settings.notes);
  top.pass_over({"job", "profiling", "metrics", "lr_scheduler", "checkpoint", "comm",
                 "memory_estimation", "experimental", "validation", "debug"});
  top.reject_other_keys();
  return settings;
}

}  // namespace athanor
