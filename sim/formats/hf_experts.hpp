// SPDX-License-Identifier: Apache-2.0
// Experts in a Hugging Face config.json. Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/formats/json_writer.hpp"
#include "sim/model/architecture.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// Key of ExpertsConfig's field in a config.json: "number" is "num_local_experts" in mixtral.
[[nodiscard]] std::string hf_expert_key(std::string_view model_type, std::string_view field);

/// Reads the experts of a mixture. c.model_type, c.num_layers and c.intermediate_size are known.
/// Throws InputError for a setting that athanor does not implement.
[[nodiscard]] ExpertsConfig read_hf_experts(JsonReader& config, const LanguageModelConfig& c);

/// Adds the keys that read_hf_experts reads.
void add_hf_experts(OrderedJson& json, const LanguageModelConfig& c);

/// Key of Multipliers' field: "logits_divisor" is "logits_scaling".
[[nodiscard]] std::string hf_multiplier_key(std::string_view field);
/// Reads the multipliers of a granitemoe; all other models have none.
[[nodiscard]] Multipliers read_hf_multipliers(JsonReader& config, const LanguageModelConfig& c);
/// Adds them, where the model is a granitemoe.
void add_hf_multipliers(OrderedJson& json, const LanguageModelConfig& c);

}  // namespace athanor
