// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_settings.hpp"

#include "cli/train/run_rates.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <variant>

namespace athanor::cli {
namespace {

/// Hashes blocks of tokens from all over the data. All of it would take too long.
std::uint64_t content_hash(const TokenDataset& tokens) {
  constexpr std::int64_t kBlocks = 64, kBlockTokens = 4096;
  std::uint64_t hash = kEmptyHash;
  std::vector<std::int64_t> block;
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    const std::int64_t first = tokens.num_tokens() / kBlocks * i;
    block.resize(static_cast<std::size_t>(std::min(kBlockTokens, tokens.num_tokens() - first)));
    tokens.read(first, block);
    hash = hash_bytes(std::as_bytes(std::span(block)), hash);
  }
  return hash;
}

/// Hashes the checksums of the shards.
std::uint64_t content_hash(const PackedDataset& packed) {
  std::uint64_t hash = kEmptyHash;
  for (const PackedShard& shard : packed.index().shards) {
    hash = hash_bytes(std::as_bytes(std::span(&shard.crc32, 1)), hash);
  }
  return hash;
}

/// Hashes the checksums of the shards, and what pixels become.
std::uint64_t content_hash(const ImageDataset& images) {
  const ImageIndex& index = images.index();
  std::uint64_t hash = hash_bytes(std::as_bytes(std::span(&index.scale, 1)), kEmptyHash);
  hash = hash_bytes(std::as_bytes(std::span(index.mean)), hash);
  hash = hash_bytes(std::as_bytes(std::span(index.deviation)), hash);
  for (const ImageShard& shard : index.shards) {
    hash = hash_bytes(std::as_bytes(std::span(&shard.file.crc32, 1)), hash);
  }
  return hash;
}

template <typename Tokens>
std::string describe_content(const Tokens& tokens) {
  return fmt::format("{} tokens, content {:016x}", tokens.num_tokens(), content_hash(tokens));
}

std::string describe_content(const ImageDataset& images) {
  return fmt::format("{} images, content {:016x}", images.num_samples(), content_hash(images));
}

std::string describe_data(const TrainingData& data) {
  return std::visit([](const auto& samples) { return describe_content(samples); }, data);
}

/// An option, whether it is idle, and why.
struct Idle {
  const char* option;
  bool is_idle;
  std::string why;
};

/// Why nothing is drawn from --seed, or nothing where something is.
std::string why_no_seed(const TrainArguments& arguments, const TrainInputs& inputs) {
  // A resumed run goes on with its seed, and says where --seed is another.
  const bool draws_weights = !inputs.weights || inputs.start.checkpoint;
  if (arguments.shuffle || draws_weights) return "";
  return "the weights are those of the model's folder, and the data is taken as it is stored";
}

std::string why_no_repredict(const TrainArguments& arguments, const TrainInputs& inputs) {
  if (arguments.repredict != "wait") return "";
  const auto& checkpoint = inputs.start.checkpoint;
  return why_no_second_prediction(arguments, inputs, checkpoint ? checkpoint->state.step : 0);
}

}  // namespace

std::map<std::string, std::string> settings_of(const TrainArguments& a, const TrainInputs& inputs) {
  const Plan& plan = inputs.plan;
  std::map<std::string, std::string> settings{
      {"data", describe_data(*inputs.data)},
      {"lr", fmt::format("{}", a.learning_rate)},
      {"min-lr", fmt::format("{}", a.minimum_learning_rate)},
      {"warmup-steps", fmt::format("{}", a.warmup_steps)},
      {"schedule", a.schedule},
      {"weight-decay", fmt::format("{}", a.weight_decay)},
      {"beta1", fmt::format("{}", a.beta1)},
      {"beta2", fmt::format("{}", a.beta2)},
      {"epsilon", fmt::format("{}", a.epsilon)},
      {"seed", fmt::format("{}", a.seed)},
      {"order of the data", a.shuffle ? "shuffled" : "as stored"},
      {"sequences per step", fmt::format("{}", plan.global_batch())},
      {"sequence length", fmt::format("{}", plan.sequence_length)},
      {"type", std::string(name_of(kDataTypeNames, plan.dtype))},
      {"adam state", std::string(name_of(kAdamStateNames, plan.adam_state))},
      {"deterministic", plan.deterministic ? "on" : "off"},
      {"gradient norm",
       plan.clipping == Clipping::None ? "not clipped" : fmt::format("{}", plan.max_gradient_norm)},
  };
  // Other schedules stretch over all steps.
  if (schedule_of(a).decay != Decay::Constant) settings["steps"] = fmt::format("{}", a.steps);
  return settings;
}

std::vector<std::string> differences(const std::map<std::string, std::string>& before,
                                     const std::map<std::string, std::string>& now) {
  std::vector<std::string> found;
  for (const auto& [name, value] : now) {
    const auto old = before.find(name);
    if (old == before.end() || old->second == value) continue;
    found.push_back(fmt::format("{}: {} -> {}", name, old->second, value));
  }
  return found;
}

std::vector<std::string> idle_options(const TrainArguments& arguments, const TrainInputs& inputs) {
  const bool is_raw = std::holds_alternative<TokenDataset>(*inputs.data);
  const bool has_checkpoints = arguments.checkpoint_interval.is_on();
  const std::string no_seed = why_no_seed(arguments, inputs);
  const std::string no_repredict = why_no_repredict(arguments, inputs);
  const std::vector<Idle> all{
      {"--nvme", !uses_nvme(inputs.plan) && !arguments.retune,
       "the plan keeps no optimizer state on NVMe"},
      {"--tokens-dtype", !is_raw && arguments.tokens_dtype != "auto",
       "the folder of the data says its types"},
      {"--keep-last", !has_checkpoints, "--checkpoint-every 0 writes none"},
      {"--async-checkpoint", !has_checkpoints && arguments.async_checkpoint != "off",
       "--checkpoint-every 0 writes none"},
      {"--min-lr", schedule_of(arguments).decay == Decay::Constant,
       "--schedule constant stays at --lr"},
      {"--eval-every", arguments.eval_every > arguments.steps,
       fmt::format("the run ends after step {}, where it is evaluated", arguments.steps)},
      {"--profile", inputs.adopted.has_value(), "the plan that the run has changed to has its own"},
      {"--platform", inputs.adopted.has_value(),
       "the plan that the run has changed to has its own"},
      {"--seed", !no_seed.empty(), no_seed},
      {"--repredict", !no_repredict.empty(), no_repredict},
  };
  std::vector<std::string> remarks;
  for (const auto& [option, is_idle, why] : all) {
    if (!is_idle || !arguments.given.contains(option)) continue;
    remarks.push_back(fmt::format("{} has no effect: {}", option, why));
  }
  return remarks;
}

std::int64_t shift_of(const TrainInputs& inputs, const DataStart& start) {
  const std::int64_t steps = inputs.start.checkpoint ? inputs.start.checkpoint->state.step : 0;
  return start.sample - steps * inputs.plan.global_batch();
}

CheckpointState state_of(const TrainInputs& inputs, const RunIdentity& run, std::int64_t step,
                         std::int64_t shift) {
  return {.run = run.run,
          .step = step,
          .position = {.samples = shift + step * inputs.plan.global_batch(),
                       .sequence_length = inputs.plan.sequence_length},
          .world_size = inputs.plan.world_size,
          .seed = run.seed,
          .model = inputs.architecture.name,
          .parameters = hash_parameters(inputs.architecture),
          .settings = run.settings,
          .files = {}};
}

SampleOrder sample_order(const TrainArguments& arguments, const TrainInputs& inputs) {
  const auto& checkpoint = inputs.start.checkpoint;
  return {arguments.shuffle, checkpoint ? checkpoint->state.seed : arguments.seed};
}

DataStart data_start(const TrainArguments& arguments, const TrainInputs& inputs) {
  if (!inputs.start.checkpoint) return {};
  const CheckpointState& state = inputs.start.checkpoint->state;
  const std::int64_t sequence = inputs.plan.sequence_length;
  if (state.position.samples < 0) {
    return {state.step * inputs.plan.global_batch(),
            "the checkpoint does not say how many samples were used: as many as this plan uses in "
            "its steps are skipped"};
  }
  const auto [samples, old_sequence] = state.position;
  if (old_sequence == sequence) return {samples, ""};
  // Samples of another length: the place in the file counts, within the epoch. Packed tokens have
  // one length.
  const std::int64_t old_windows = num_samples(*inputs.data, old_sequence);
  const std::int64_t token = samples % old_windows * old_sequence;
  const std::int64_t window = token / sequence;
  const std::int64_t first = samples / old_windows * num_samples(*inputs.data, sequence) + window;
  if (arguments.shuffle) {
    return {first,
            fmt::format("sequences of {} tokens instead of {} have another order: until the next "
                        "epoch some tokens are read again and some are left out",
                        sequence, old_sequence)};
  }
  return {first,
          fmt::format("sequences of {} tokens instead of {}: the data goes on at token {}, so {} "
                      "are read again",
                      sequence, old_sequence, window * sequence, token - window * sequence)};
}

}  // namespace athanor::cli
