// SPDX-License-Identifier: Apache-2.0
// Attention in a Hugging Face config.json: rotary positions, biases and windows. Internal to this
// folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/formats/json_writer.hpp"
#include "sim/model/architecture.hpp"

namespace athanor {

/// Reads the positions, biases and windows of the llama family's attention into `c`, whose
/// model_type, num_layers and max_positions are known. Throws InputError for a setting that athanor
/// does not implement.
void read_hf_attention(JsonReader& config, LanguageModelConfig& c);

/// Adds the keys that read_hf_attention reads.
void add_hf_attention(OrderedJson& json, const LanguageModelConfig& c);

}  // namespace athanor
