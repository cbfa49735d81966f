// SPDX-License-Identifier: Apache-2.0
// Units of every language model family, under the names of its Hugging Face checkpoint.
#include "sim/model/language_models.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/architecture.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
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

/// Block of llama and its kin, which differ in biases, in sinks, in norms of q and k, and in
/// experts.
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
  if (has_sinks(c.model_type)) add(parameters, attention + "sinks", {c.num_heads});
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

/// Parts of a family. `block_prefix` is followed by the block's number and a dot. Parameters of a
/// block whose names go on with one of `attention` are attention's.
struct Recipe {
  Parameters (*embedding)(const LanguageModelConfig&);
  Parameters (*block)(const LanguageModelConfig&, const std::string& prefix, std::int64_t index);
  void (*add_norm)(Parameters&, const std::string& name, std::int64_t size);
  const char* block_prefix;
  const char* final_norm;
  std::array<std::string_view, 2> attention;
};

const Recipe& recipe_of(const LanguageModelConfig& config) {
  static constexpr Recipe kGpt2{gpt2_embedding,   gpt2_block,         add_layer_norm,
                                "transformer.h.", "transformer.ln_f", {"ln_1.", "attn."}};
  static constexpr Recipe kOpt{opt_embedding,
                               opt_block,
                               add_layer_norm,
                               "model.decoder.layers.",
                               "model.decoder.final_layer_norm",
                               {"self_attn.", "self_attn_layer_norm."}};
  static constexpr Recipe kLlama{llama_embedding, llama_block,  add_rms_norm,
                                 "model.layers.", "model.norm", {"self_attn.", "input_layernorm."}};
  if (config.model_type == "gpt2") {
    return kGpt2;
  }
  return config.model_type == "opt" ? kOpt : kLlama;
}

std::string prefix_of(const Recipe& recipe, std::int64_t block) {
  return fmt::format("{}{}.", recipe.block_prefix, block);
}

/// FLOPs of attention's scores and of their product with the values, for each token of context:
/// 4 x heads x head_dim, half of it masked.
double attention_flops(const LanguageModelConfig& config) {
  return 2.0 * static_cast<double>(config.num_heads * config.head_dim);
}

/// Class of a whole block. Blocks of a mixture without experts have other shapes than the rest, and
/// those without the window another attention.
std::string block_class(const LanguageModelConfig& config, std::int64_t index) {
  if (config.experts.exist() && !config.experts.are_in(index)) return "dense_block";
  return window_of(config, index) == config.sliding_window ? "block" : "full_attention_block";
}

Unit make_block(const LanguageModelConfig& config, const Recipe& recipe, std::int64_t index) {
  Unit unit{fmt::format("block.{}", index), block_class(config, index), {}, {}, 0, 0};
  unit.parameters = recipe.block(config, prefix_of(recipe, index), index);
  unit.forward_flops_per_token = matrix_flops_per_token(config, unit.parameters);
  unit.forward_flops_per_token_per_context = attention_flops(config);
  return unit;
}

/// Makes the two units of a block. Attention is one class in all blocks with the same window.
std::array<Unit, 2> make_halves(const LanguageModelConfig& config, const Recipe& recipe,
                                std::int64_t index) {
  const std::string behind = config.experts.are_in(index) ? "experts" : "mlp";
  const bool is_full = window_of(config, index) != config.sliding_window;
  std::array<Unit, 2> halves{Unit{fmt::format("block.{}.{}", index, kAttentionClass),
                                  std::string(is_full ? kFullAttentionClass : kAttentionClass),
                                  {},
                                  {},
                                  0,
                                  0},
                             Unit{fmt::format("block.{}.{}", index, behind), behind, {}, {}, 0, 0}};
  const std::string prefix = prefix_of(recipe, index);
  for (Parameter& parameter : recipe.block(config, prefix, index)) {
    const std::string_view name = std::string_view(parameter.name).substr(prefix.size());
    const bool is_attention = std::ranges::any_of(
        recipe.attention, [name](std::string_view start) { return name.starts_with(start); });
    halves[is_attention ? 0 : 1].parameters.push_back(std::move(parameter));
  }
  for (Unit& half : halves) {
    half.forward_flops_per_token = matrix_flops_per_token(config, half.parameters);
  }
  halves[0].forward_flops_per_token_per_context = attention_flops(config);
  return halves;
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
  return make_architecture(name, config, Blocks::Whole);
}

Architecture make_architecture(const std::string& name, const LanguageModelConfig& config,
                               Blocks blocks) {
  validate(config, name);
  const Recipe& recipe = recipe_of(config);
  Architecture architecture{name, config, {}};
  architecture.units.push_back({"embedding", "embedding", recipe.embedding(config), {}, 0, 0});
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    if (blocks == Blocks::Split) {
      std::ranges::move(make_halves(config, recipe, i), std::back_inserter(architecture.units));
    } else {
      architecture.units.push_back(make_block(config, recipe, i));
    }
  }
  architecture.units.push_back(make_head(config, recipe, architecture.units.front()));
  return architecture;
}

Blocks blocks_of(const Architecture& architecture) noexcept {
  const bool is_split = architecture.language_model &&
                        std::ranges::any_of(architecture.units, is_attention, &Unit::unit_class);
  return is_split ? Blocks::Split : Blocks::Whole;
}

bool is_attention(std::string_view unit_class) noexcept {
  return unit_class == kAttentionClass || unit_class == kFullAttentionClass;
}

Architecture with_blocks(const Architecture& architecture, Blocks blocks) {
  if (blocks == blocks_of(architecture)) return architecture;
  if (!architecture.language_model) {
    throw InputError(
        architecture.name,
        "its blocks cannot be split: it is no language model that "
        "athanor has units of its own for",
        fmt::format("Models whose blocks can be split: {}.", fmt::join(kModelTypes, ", ")));
  }
  return make_architecture(architecture.name, *architecture.language_model, blocks);
}

std::string ExpertNames::expert(std::int64_t index) const {
  return fmt::format("{}experts.{}.", mixture, index);
}

ExpertNames expert_names(std::string_view model_type) {
  if (model_type == "mixtral") return {"block_sparse_moe.", "w1", "w3", "w2"};
  // Files have all experts of a layer in one tensor (executor/io/stored_tensors.hpp).
  if (model_type == "granitemoe") {
    return {"block_sparse_moe.", "gate", "up", "down", "router.layer"};
  }
  if (model_type == "gpt_oss") return {"mlp.", "gate_proj", "up_proj", "down_proj", "router"};
  return {"mlp.", "gate_proj", "up_proj", "down_proj"};
}

std::vector<Parameter> expert_parameters(const LanguageModelConfig& c,
                                         const std::string& block_prefix) {
  const ExpertNames names = expert_names(c.model_type);
  std::vector<Parameter> parameters;
  const auto add = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    parameters.push_back({fmt::format("{}{}.weight", block_prefix, name), {out, in}});
  };
  const auto add_bias = [&](const std::string& name, std::int64_t out) {
    parameters.push_back({fmt::format("{}{}.bias", block_prefix, name), {out}});
  };
  const bool biases = has_expert_biases(c.model_type);
  const auto add_perceptron = [&](const std::string& prefix, std::int64_t inner) {
    add(prefix + names.gate, inner, c.hidden_size);
    add(prefix + names.up, inner, c.hidden_size);
  };
  add(names.router(), c.experts.number, c.hidden_size);
  for (std::int64_t i = 0; i < c.experts.number; ++i) {
    add_perceptron(names.expert(i), c.experts.intermediate_size);
  }
  for (std::int64_t i = 0; i < c.experts.number; ++i) {
    add(names.expert(i) + names.down, c.hidden_size, c.experts.intermediate_size);
  }
  for (std::int64_t i = 0; biases && i < c.experts.number; ++i) {
    add_bias(names.expert(i) + names.gate, c.experts.intermediate_size);
    add_bias(names.expert(i) + names.up, c.experts.intermediate_size);
  }
  for (std::int64_t i = 0; biases && i < c.experts.number; ++i) {
    add_bias(names.expert(i) + names.down, c.hidden_size);
  }
  // Behind the experts, whose parts on several ranks begin aligned.
  if (biases) add_bias(names.router(), c.experts.number);
  if (c.experts.shared_intermediate_size > 0) {
    const std::string shared = names.mixture + "shared_expert.";
    add_perceptron(shared, c.experts.shared_intermediate_size);
    add(shared + names.down, c.hidden_size, c.experts.shared_intermediate_size);
    add(names.mixture + "shared_expert_gate", 1, c.hidden_size);
  }
  return parameters;
}

double matrix_flops_per_token(const LanguageModelConfig& config,
                              const std::vector<Parameter>& parameters) {
  double flops = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.shape.size() != 2) continue;
    const bool is_experts = parameter.name.find(".experts.") != std::string::npos;
    // A multiplication and an addition per element.
    flops += 2.0 * static_cast<double>(parameter.num_elements()) *
             (is_experts ? config.experts.share() : 1.0);
  }
  return flops;
}

}  // namespace athanor
