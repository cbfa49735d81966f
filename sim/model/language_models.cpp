// SPDX-License-Identifier: Apache-2.0
// Units of every language model family, under the names of its Hugging Face checkpoint.
#include "sim/model/language_models.hpp"

#include "sim/model/architecture.hpp"

#include <fmt/core.h>

#include <utility>

namespace athanor {
namespace {

constexpr std::int64_t kOptPositionOffset = 2;  // OPT's learned positions start at row 2

using Parameters = std::vector<Parameter>;

void add(Parameters& parameters, std::string name, std::vector<std::int64_t> shape) {
  parameters.push_back({std::move(name), std::move(shape)});
}

/// Adds weight [out, in] and, where the layer has one, bias [out].
void add_linear(Parameters& parameters, const std::string& name, std::int64_t in, std::int64_t out,
                bool bias) {
  add(parameters, name + ".weight", {out, in});
  if (bias) {
    add(parameters, name + ".bias", {out});
  }
}

/// Adds GPT-2's Conv1D: weight [in, out] and bias [out].
void add_conv1d(Parameters& parameters, const std::string& name, std::int64_t in,
                std::int64_t out) {
  add(parameters, name + ".weight", {in, out});
  add(parameters, name + ".bias", {out});
}

void add_layer_norm(Parameters& parameters, const std::string& name, std::int64_t size) {
  add(parameters, name + ".weight", {size});
  add(parameters, name + ".bias", {size});
}

void add_rms_norm(Parameters& parameters, const std::string& name, std::int64_t size) {
  add(parameters, name + ".weight", {size});
}

Parameters gpt2_embedding(const LanguageModelConfig& c) {
  Parameters parameters;
  add(parameters, "transformer.wte.weight", {c.vocab_size, c.hidden_size});
  add(parameters, "transformer.wpe.weight", {c.max_positions, c.hidden_size});
  return parameters;
}

Parameters gpt2_block(const LanguageModelConfig& c, const std::string& prefix,
                      std::int64_t /*index*/) {
  Parameters parameters;
  add_layer_norm(parameters, prefix + "ln_1", c.hidden_size);
  add_conv1d(parameters, prefix + "attn.c_attn", c.hidden_size, 3 * c.hidden_size);
  add_conv1d(parameters, prefix + "attn.c_proj", c.hidden_size, c.hidden_size);
  add_layer_norm(parameters, prefix + "ln_2", c.hidden_size);
  add_conv1d(parameters, prefix + "mlp.c_fc", c.hidden_size, c.intermediate_size);
  add_conv1d(parameters, prefix + "mlp.c_proj", c.intermediate_size, c.hidden_size);
  return parameters;
}

Parameters opt_embedding(const LanguageModelConfig& c) {
  Parameters parameters;
  add(parameters, "model.decoder.embed_tokens.weight", {c.vocab_size, c.hidden_size});
  add(parameters, "model.decoder.embed_positions.weight",
      {c.max_positions + kOptPositionOffset, c.hidden_size});
  return parameters;
}

Parameters opt_block(const LanguageModelConfig& c, const std::string& prefix,
                     std::int64_t /*index*/) {
  Parameters parameters;
  for (const char* name : {"k_proj", "v_proj", "q_proj", "out_proj"}) {
    add_linear(parameters, prefix + "self_attn." + name, c.hidden_size, c.hidden_size, true);
  }
  add_layer_norm(parameters, prefix + "self_attn_layer_norm", c.hidden_size);
  add_linear(parameters, prefix + "fc1", c.hidden_size, c.intermediate_size, true);
  add_linear(parameters, prefix + "fc2", c.intermediate_size, c.hidden_size, true);
  add_layer_norm(parameters, prefix + "final_layer_norm", c.hidden_size);
  return parameters;
}

Parameters llama_embedding(const LanguageModelConfig& c) {
  Parameters parameters;
  add(parameters, "model.embed_tokens.weight", {c.vocab_size, c.hidden_size});
  return parameters;
}

void add_gated_mlp(Parameters& parameters, const LanguageModelConfig& c,
                   const std::string& prefix) {
  add_linear(parameters, prefix + "gate_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
  add_linear(parameters, prefix + "up_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
  add_linear(parameters, prefix + "down_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
}

/// Block of llama and its kin, which differ in biases, in norms of q and k, and in experts.
Parameters llama_block(const LanguageModelConfig& c, const std::string& prefix,
                       std::int64_t index) {
  Parameters parameters;
  const std::int64_t q_size = c.num_heads * c.head_dim;
  const std::int64_t kv_size = c.num_kv_heads * c.head_dim;
  const std::string attention = prefix + "self_attn.";
  add_linear(parameters, attention + "q_proj", c.hidden_size, q_size, c.attention_bias);
  add_linear(parameters, attention + "k_proj", c.hidden_size, kv_size, c.attention_bias);
  add_linear(parameters, attention + "v_proj", c.hidden_size, kv_size, c.attention_bias);
  add_linear(parameters, attention + "o_proj", q_size, c.hidden_size, c.attention_output_bias);
  if (const HeadNormKind norms = head_norms(c); norms != HeadNormKind::None) {
    const bool whole = norms == HeadNormKind::AllHeads;
    add_rms_norm(parameters, attention + "q_norm", whole ? q_size : c.head_dim);
    add_rms_norm(parameters, attention + "k_norm", whole ? kv_size : c.head_dim);
  }
  if (c.experts.are_in(index)) {
    for (Parameter& parameter : expert_parameters(c, prefix)) {
      parameters.push_back(std::move(parameter));
    }
  } else {
    add_gated_mlp(parameters, c, prefix + "mlp.");
  }
  add_rms_norm(parameters, prefix + "input_layernorm", c.hidden_size);
  add_rms_norm(parameters, prefix + "post_attention_layernorm", c.hidden_size);
  return parameters;
}

/// Parts of a family. `block_prefix` is followed by the block's number and a dot.
struct Recipe {
  Parameters (*embedding)(const LanguageModelConfig&);
  Parameters (*block)(const LanguageModelConfig&, const std::string& prefix, std::int64_t index);
  void (*add_norm)(Parameters&, const std::string& name, std::int64_t size);
  const char* block_prefix;
  const char* final_norm;
};

const Recipe& recipe_of(const LanguageModelConfig& config) {
  static constexpr Recipe kGpt2{gpt2_embedding, gpt2_block, add_layer_norm, "transformer.h.",
                                "transformer.ln_f"};
  static constexpr Recipe kOpt{opt_embedding, opt_block, add_layer_norm, "model.decoder.layers.",
                               "model.decoder.final_layer_norm"};
  static constexpr Recipe kLlama{llama_embedding, llama_block, add_rms_norm, "model.layers.",
                                 "model.norm"};
  if (config.model_type == "gpt2") {
    return kGpt2;
  }
  return config.model_type == "opt" ? kOpt : kLlama;
}

Unit make_block(const LanguageModelConfig& config, const Recipe& recipe, std::int64_t index) {
  // Blocks of a mixture without experts have other shapes than the rest.
  const bool dense = config.experts.exist() && !config.experts.are_in(index);
  Unit unit{fmt::format("block.{}", index), dense ? "dense_block" : "block", {}, {}, 0, 0};
  unit.parameters = recipe.block(config, fmt::format("{}{}.", recipe.block_prefix, index), index);
  unit.forward_flops_per_token = matrix_flops_per_token(config, unit.parameters);
  // Scores and their product with the values: 4 x heads x head_dim x context, half of it masked.
  unit.forward_flops_per_token_per_context =
      2.0 * static_cast<double>(config.num_heads * config.head_dim);
  return unit;
}

Unit make_head(const LanguageModelConfig& config, const Recipe& recipe, const Unit& embedding) {
  Unit unit{"head", "head", {}, {}, 0, 0};
  recipe.add_norm(unit.parameters, recipe.final_norm, config.hidden_size);
  if (config.tie_word_embeddings) {
    unit.borrows.push_back({0, embedding.parameters.front().name});
  } else {
    add(unit.parameters, "lm_head.weight", {config.vocab_size, config.hidden_size});
  }
  unit.forward_flops_per_token =
      2.0 * static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  return unit;
}

}  // namespace

Architecture make_architecture(const std::string& name, const LanguageModelConfig& config) {
  validate(config, name);
  const Recipe& recipe = recipe_of(config);
  Architecture architecture{name, config, {}};
  architecture.units.push_back({"embedding", "embedding", recipe.embedding(config), {}, 0, 0});
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    architecture.units.push_back(make_block(config, recipe, i));
  }
  architecture.units.push_back(make_head(config, recipe, architecture.units.front()));
  return architecture;
}

}  // namespace athanor
