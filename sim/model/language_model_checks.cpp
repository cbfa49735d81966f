// SPDX-License-Identifier: Apache-2.0
// Checks that hyperparameters make a language model that athanor can run.
#include "sim/model/language_model_checks.hpp"

#include "sim/model/language_models.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace athanor {
namespace {

using PathOf = std::function<ValuePath(std::string_view field)>;

void check_model_type(const LanguageModelConfig& config, const PathOf& path_of) {
  if (std::find(kModelTypes.begin(), kModelTypes.end(), config.model_type) == kModelTypes.end()) {
    path_of("model_type")
        .reject(fmt::format("unknown model type '{}'", config.model_type),
                fmt::format("Known: {}.", fmt::join(kModelTypes, ", ")));
  }
}

void check_sizes(const LanguageModelConfig& c, const PathOf& path_of) {
  // Far above any model, and low enough that no product of sizes overflows.
  constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
  constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;
  constexpr std::int64_t kMaxDim = std::int64_t{1} << 20;
  constexpr std::int64_t kMaxLayers = 10'000;
  check_integer(path_of("vocab_size"), c.vocab_size, 1, kMaxVocabulary);
  check_integer(path_of("hidden_size"), c.hidden_size, 1, kMaxDim);
  check_integer(path_of("num_layers"), c.num_layers, 1, kMaxLayers);
  check_integer(path_of("num_heads"), c.num_heads, 1, kMaxDim);
  check_integer(path_of("num_kv_heads"), c.num_kv_heads, 1, c.num_heads);
  check_integer(path_of("head_dim"), c.head_dim, 1, kMaxDim / c.num_heads);
  check_integer(path_of("intermediate_size"), c.intermediate_size, 1, kMaxDim);
  check_integer(path_of("max_positions"), c.max_positions, 1, kMaxPositions);
  check_integer(path_of("sliding_window"), c.sliding_window, 0, kMaxPositions);
  check_number(path_of("norm_epsilon"), c.norm_epsilon, 0, 1);
  check_positive(path_of("rope_theta"), c.rope_theta);
}

/// Whether `blocks` are some of a model's, and not all, in ascending order.
bool are_some_blocks(const std::vector<std::int64_t>& blocks, std::int64_t num_layers) {
  const bool ascending = std::is_sorted(blocks.begin(), blocks.end()) &&
                         std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end();
  return ascending && std::ssize(blocks) < num_layers &&
         (blocks.empty() || (blocks.front() >= 0 && blocks.back() < num_layers));
}

void check_windows(const LanguageModelConfig& c, const PathOf& path_of) {
  const std::vector<std::int64_t>& full = c.full_attention_blocks;
  if (full.empty()) return;
  if (c.model_type != "gpt_oss" || c.sliding_window == 0 || !are_some_blocks(full, c.num_layers)) {
    path_of("full_attention_blocks")
        .reject("these are not some of the blocks of a gpt_oss with a window, in order",
                "Where no block has a window, sliding_window is 0 and this list is empty.");
  }
}

void check_attention(const LanguageModelConfig& c, const PathOf& path_of) {
  if (c.num_heads % c.num_kv_heads != 0) {
    path_of("num_kv_heads")
        .reject(fmt::format("{} does not divide num_heads = {}", c.num_kv_heads, c.num_heads),
                "Every key-value head serves the same number of heads.");
  }
  if (has_rotary_positions(c)) {
    if (c.head_dim % 2 != 0) {
      path_of("head_dim")
          .reject(fmt::format("{} is odd", c.head_dim), "Rotary positions turn pairs of elements.");
    }
  } else if (c.num_heads * c.head_dim != c.hidden_size || c.num_kv_heads != c.num_heads) {
    path_of("head_dim")
        .reject(fmt::format("{} heads of {} do not make hidden_size = {}", c.num_heads, c.head_dim,
                            c.hidden_size),
                fmt::format("In {}, heads divide hidden_size and all have their own keys.",
                            c.model_type));
  }
}

constexpr std::int64_t kMaxExperts = 4096;  // keeps a model's list of parameters readable

constexpr std::array<std::string_view, 5> kRopeTypes{"linear", "dynamic", "llama3", "yarn",
                                                     "longrope"};

void check_longrope(const RopeScaling& scaling, std::int64_t head_dim, const ValuePath& path) {
  for (const auto& [name, factors] : {std::pair("short_factor", &scaling.short_factor),
                                      std::pair("long_factor", &scaling.long_factor)}) {
    if (static_cast<std::int64_t>(factors->size()) != head_dim / 2) {
      path.key(name).reject(fmt::format("{} factors for heads of {}", factors->size(), head_dim),
                            "There is one for each pair of elements.");
    }
    for (std::size_t i = 0; i < factors->size(); ++i) {
      check_positive(path.key(name).item(i), (*factors)[i]);
    }
  }
}

void check_rope_scaling(const LanguageModelConfig& c, const PathOf& path_of) {
  const RopeScaling& scaling = c.rope_scaling;
  if (scaling.is_none()) return;
  const ValuePath path = path_of("rope_scaling");
  if (!has_rotary_positions(c) ||
      std::find(kRopeTypes.begin(), kRopeTypes.end(), scaling.type) == kRopeTypes.end()) {
    path.key("rope_type")
        .reject(fmt::format("'{}' is not supported", scaling.type),
                fmt::format("Supported: {}.", fmt::join(kRopeTypes, ", ")));
  }
  check_positive(path.key("factor"), scaling.factor, 1e6);
  check_integer(path.key("original_max_position_embeddings"), scaling.original_positions,
                scaling.type == "linear" ? 0 : 1);
  check_positive(path.key("low_freq_factor"), scaling.low_frequency_factor, 1e6);
  check_positive(path.key("high_freq_factor"), scaling.high_frequency_factor, 1e6);
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    path.key("high_freq_factor")
        .reject(fmt::format("{} is not above low_freq_factor", scaling.high_frequency_factor),
                "The two limits are the ends of a range.");
  }
  check_positive(path.key("beta_fast"), scaling.beta_fast, 1e6);
  check_positive(path.key("beta_slow"), scaling.beta_slow, 1e6);
  check_positive(path.key("attention_factor"), scaling.attention_factor, 1e6);
  if (scaling.type == "longrope") check_longrope(scaling, c.head_dim, path);
}

/// Checks the families in which every linear layer has a bias.
void check_biases(const LanguageModelConfig& c, const PathOf& path_of) {
  const bool all = c.attention_bias && c.attention_output_bias && c.mlp_bias;
  if (!has_rotary_positions(c) && !all) {
    path_of("attention_bias")
        .reject(fmt::format("{} without biases is not supported", c.model_type),
                "Every linear layer of gpt2 and opt has one.");
  }
}

void check_activation(const LanguageModelConfig& c, const PathOf& path_of) {
  const std::vector<std::string> known = has_rotary_positions(c)
                                             ? std::vector<std::string>{"silu"}
                                             : std::vector<std::string>{"gelu_new", "gelu", "relu"};
  if (std::find(known.begin(), known.end(), c.activation) == known.end()) {
    path_of("activation")
        .reject(fmt::format("'{}' is not supported in {}", c.activation, c.model_type),
                fmt::format("Supported: {}.", fmt::join(known, ", ")));
  }
}

void check_multipliers(const LanguageModelConfig& c, const PathOf& path_of) {
  const Multipliers& m = c.multipliers;
  if (c.model_type != "granitemoe") {
    if (m == Multipliers{}) return;
    path_of("multipliers")
        .reject(fmt::format("{} has no multipliers", c.model_type), "Leave them out.");
  }
  check_positive(path_of("multipliers.embedding"), m.embedding, 1e6);
  check_positive(path_of("multipliers.attention"), m.attention, 1e6);
  check_positive(path_of("multipliers.residual"), m.residual, 1e6);
  check_positive(path_of("multipliers.logits_divisor"), m.logits_divisor, 1e6);
  if (c.num_heads * c.head_dim != c.hidden_size) {
    path_of("head_dim")
        .reject(fmt::format("{} heads of {} do not make hidden_size = {}", c.num_heads, c.head_dim,
                            c.hidden_size),
                "In granitemoe, heads divide hidden_size.");
  }
}

void check_experts(const LanguageModelConfig& c, const PathOf& path_of) {
  constexpr std::int64_t kMaxDim = std::int64_t{1} << 20;
  const ExpertsConfig& experts = c.experts;
  if (experts.exist() != has_experts(c.model_type)) {
    path_of("experts.number")
        .reject(fmt::format("{} experts in {}", experts.number, c.model_type),
                "Mixtures have experts, and no other model has.");
  }
  if (!experts.exist()) return;
  check_integer(path_of("experts.number"), experts.number, 1, kMaxExperts);
  check_integer(path_of("experts.per_token"), experts.per_token, 1, experts.number);
  check_integer(path_of("experts.intermediate_size"), experts.intermediate_size, 1, kMaxDim);
  check_integer(path_of("experts.shared_intermediate_size"), experts.shared_intermediate_size, 0,
                kMaxDim);
  check_number(path_of("experts.balance_loss_factor"), experts.balance_loss_factor, 0, 1e6);
  if (!are_some_blocks(experts.dense_blocks, c.num_layers)) {
    path_of("experts.dense_blocks")
        .reject("these are not some of the blocks, in order", "One block at least has experts.");
  }
  check_number(path_of("experts.gate_limit"), experts.gate_limit, 0, 1e6);
  if ((experts.gate_limit > 0) != (c.model_type == "gpt_oss")) {
    path_of("experts.gate_limit")
        .reject(fmt::format("{} in {}", experts.gate_limit, c.model_type),
                "gpt_oss clamps gates, above 0, and no other model does.");
  }
}

}  // namespace

std::string text_of(const RopeScaling& s) {
  if (s.is_none()) return "";
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}", s.type, s.factor, s.original_positions,
                     s.low_frequency_factor, s.high_frequency_factor, s.beta_fast, s.beta_slow,
                     s.truncate, s.attention_factor, fmt::join(s.short_factor, " "),
                     fmt::join(s.long_factor, " "));
}

std::string text_of(const ExpertsConfig& e) {
  if (!e.exist()) return "";
  std::string text = fmt::format("{} {} {}", e.per_token, e.normalized, e.balance_loss_factor);
  if (e.gate_limit > 0) text += fmt::format(" {}", e.gate_limit);
  return text;
}

std::string text_of(const Multipliers& m) {
  if (m == Multipliers{}) return "";
  return fmt::format("{} {} {} {}", m.embedding, m.attention, m.residual, m.logits_divisor);
}

bool has_rotary_positions(const LanguageModelConfig& config) noexcept {
  return config.model_type != "gpt2" && config.model_type != "opt";
}

HeadNormKind head_norms(const LanguageModelConfig& config) noexcept {
  if (config.model_type == "olmoe") return HeadNormKind::AllHeads;
  const bool each = config.model_type == "qwen3" || config.model_type == "qwen3_moe";
  return each ? HeadNormKind::EachHead : HeadNormKind::None;
}

bool has_experts(std::string_view model_type) noexcept {
  return model_type == "mixtral" || model_type == "qwen2_moe" || model_type == "qwen3_moe" ||
         model_type == "olmoe" || model_type == "granitemoe" || model_type == "gpt_oss";
}

bool has_sinks(std::string_view model_type) noexcept { return model_type == "gpt_oss"; }

bool has_expert_biases(std::string_view model_type) noexcept { return model_type == "gpt_oss"; }

std::int64_t window_of(const LanguageModelConfig& config, std::int64_t block) {
  const std::vector<std::int64_t>& full = config.full_attention_blocks;
  return std::ranges::binary_search(full, block) ? 0 : config.sliding_window;
}

void check_config(const LanguageModelConfig& config, const PathOf& path_of) {
  check_model_type(config, path_of);
  check_sizes(config, path_of);
  check_attention(config, path_of);
  check_windows(config, path_of);
  check_rope_scaling(config, path_of);
  check_biases(config, path_of);
  check_activation(config, path_of);
  check_experts(config, path_of);
  check_multipliers(config, path_of);
}

void validate(const LanguageModelConfig& config, const std::string& where) {
  check_config(config, [&where](std::string_view field) { return ValuePath(where).key(field); });
}

}  // namespace athanor
