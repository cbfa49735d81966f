// SPDX-License-Identifier: Apache-2.0
// Language models of every family, small enough to run in milliseconds.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/language_models.hpp"

#include <string>

namespace athanor::test {

inline LanguageModelConfig tiny_config(const std::string& model_type) {
  const bool learned_positions = model_type == "gpt2" || model_type == "opt";
  LanguageModelConfig config;
  config.model_type = model_type;
  config.vocab_size = 61;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = learned_positions ? 4 : 2;
  config.head_dim = 8;
  config.intermediate_size = 64;
  config.max_positions = 16;
  config.activation = model_type == "gpt2" ? "gelu_new" : learned_positions ? "relu" : "silu";
  config.tie_word_embeddings = model_type != "llama";
  const bool is_gpt_oss = model_type == "gpt_oss";
  config.attention_bias = learned_positions || model_type.starts_with("qwen2") || is_gpt_oss;
  config.attention_output_bias = learned_positions || is_gpt_oss;
  config.mlp_bias = learned_positions;
  config.sliding_window = model_type == "mistral" || is_gpt_oss ? 3 : 0;
  if (has_experts(model_type)) {
    config.experts = {.number = 8, .per_token = 2, .intermediate_size = 16, .dense_blocks = {}};
    config.experts.normalized = model_type == "mixtral" || model_type == "qwen3_moe" ||
                                model_type == "granitemoe" || is_gpt_oss;
    if (model_type == "qwen2_moe") config.experts.shared_intermediate_size = 24;
    if (model_type == "qwen3_moe") config.experts.dense_blocks = {1};
  }
  if (is_gpt_oss) {
    config.experts.gate_limit = 7;
    config.full_attention_blocks = {1};
  }
  if (model_type == "granitemoe") {
    config.multipliers = {
        .embedding = 12, .attention = 0.125, .residual = 0.25, .logits_divisor = 6};
  }
  return config;
}

inline Architecture tiny_architecture(const std::string& model_type) {
  return make_architecture("tiny-" + model_type, tiny_config(model_type));
}

}  // namespace athanor::test
