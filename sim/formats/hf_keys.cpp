// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/hf_keys.hpp"

#include "sim/formats/hf_experts.hpp"

#include <fmt/core.h>

#include <array>
#include <span>
#include <utility>

namespace athanor {
namespace {

using Renaming = std::pair<std::string_view, std::string_view>;

constexpr std::array<Renaming, 9> kGpt2Keys{{{"hidden_size", "n_embd"},
                                             {"num_layers", "n_layer"},
                                             {"num_heads", "n_head"},
                                             {"num_kv_heads", "n_head"},
                                             {"head_dim", "n_head"},
                                             {"intermediate_size", "n_inner"},
                                             {"max_positions", "n_positions"},
                                             {"norm_epsilon", "layer_norm_epsilon"},
                                             {"activation", "activation_function"}}};

constexpr std::array<Renaming, 7> kOptKeys{{{"num_layers", "num_hidden_layers"},
                                            {"num_heads", "num_attention_heads"},
                                            {"num_kv_heads", "num_attention_heads"},
                                            {"head_dim", "num_attention_heads"},
                                            {"intermediate_size", "ffn_dim"},
                                            {"max_positions", "max_position_embeddings"},
                                            {"activation", "activation_function"}}};

constexpr std::array<Renaming, 6> kLlamaKeys{{{"num_layers", "num_hidden_layers"},
                                              {"num_heads", "num_attention_heads"},
                                              {"num_kv_heads", "num_key_value_heads"},
                                              {"max_positions", "max_position_embeddings"},
                                              {"norm_epsilon", "rms_norm_eps"},
                                              {"activation", "hidden_act"}}};

// The defaults of transformers' configuration classes, the same in versions 4.57 and 5.24.
constexpr std::array<std::pair<std::string_view, MissingKeys>, 8> kMissingKeys{
    {{"mistral", {.num_kv_heads = 8}},
     {"qwen2", {.num_kv_heads = 32}},
     {"qwen3", {.num_kv_heads = 32, .head_dim = 128}},
     {"mixtral", {.num_kv_heads = 8, .norm_epsilon = 1e-5, .rope_theta = 1e6}},
     {"qwen2_moe", {.num_kv_heads = 16}},
     {"qwen3_moe", {.num_kv_heads = 4}},
     {"olmoe", {.norm_epsilon = 1e-5}},
     {"gpt_oss", {.num_kv_heads = 8, .head_dim = 64, .norm_epsilon = 1e-5, .rope_theta = 150000}}}};

std::span<const Renaming> keys_of(std::string_view model_type) {
  if (model_type == "gpt2") {
    return kGpt2Keys;
  }
  return model_type == "opt" ? std::span<const Renaming>(kOptKeys) : kLlamaKeys;
}

}  // namespace

std::string hf_key(std::string_view model_type, std::string_view field) {
  constexpr std::string_view kExperts = "experts.";
  if (field.starts_with(kExperts)) {
    return hf_expert_key(model_type, field.substr(kExperts.size()));
  }
  constexpr std::string_view kMultipliers = "multipliers.";
  if (field.starts_with(kMultipliers)) return hf_multiplier_key(field.substr(kMultipliers.size()));
  for (const auto& [ours, theirs] : keys_of(model_type)) {
    if (ours == field) {
      return std::string(theirs);
    }
  }
  return std::string(field);
}

MissingKeys missing_keys(std::string_view model_type) noexcept {
  for (const auto& [type, keys] : kMissingKeys) {
    if (type == model_type) return keys;
  }
  return {};
}

bool boolean_or(JsonReader& config, const std::string& key, bool fallback) {
  const auto value = config.optional_key(key);
  return value ? value->boolean() : fallback;
}

std::int64_t integer_or(JsonReader& config, const std::string& key, std::int64_t fallback) {
  const auto value = config.optional_key(key);
  return value ? value->integer(1) : fallback;
}

double number_or(JsonReader& config, const std::string& key, double fallback) {
  const auto value = config.optional_key(key);
  return value ? value->number() : fallback;
}

void require_setting(JsonReader& config, const std::string& key, bool setting) {
  if (boolean_or(config, key, setting) != setting) {
    config.path().key(key).reject(fmt::format("{} is not supported", !setting),
                                  fmt::format("Only models with {} can be used.", setting));
  }
}

}  // namespace athanor
