// SPDX-License-Identifier: Apache-2.0
// Names of LanguageModelConfig's fields in config.json, and access to keys that may be missing.
// Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace athanor {

/// Key of `field` in a config.json of `model_type`: "num_layers" is "n_layer" in gpt2.
[[nodiscard]] std::string hf_key(std::string_view model_type, std::string_view field);

/// Values of keys that may be missing or null.
[[nodiscard]] bool boolean_or(JsonReader& config, const std::string& key, bool fallback);
[[nodiscard]] std::int64_t integer_or(JsonReader& config, const std::string& key,
                                      std::int64_t fallback);  ///< 1 or more
[[nodiscard]] double number_or(JsonReader& config, const std::string& key, double fallback);

/// Values that transformers takes where a rotary model's config.json lacks a key. They differ from
/// family to family. Null is another matter: as many heads of keys as of queries, and even shares.
struct MissingKeys {
  std::int64_t num_kv_heads = 0;  ///< 0: as many as heads of queries
  std::int64_t head_dim = 0;      ///< 0: an even share of the hidden size
  double norm_epsilon = 1e-6;
  double rope_theta = 1e4;
};

[[nodiscard]] MissingKeys missing_keys(std::string_view model_type) noexcept;

/// Refuses a switch that is not at the one setting that athanor implements.
void require_setting(JsonReader& config, const std::string& key, bool setting);

}  // namespace athanor
