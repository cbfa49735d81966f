// SPDX-License-Identifier: Apache-2.0
// Writes the config.json with which `transformers` loads a model that athanor trained.
#include "sim/formats/hf_attention.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/formats/hf_experts.hpp"
#include "sim/formats/hf_keys.hpp"
#include "sim/formats/json_writer.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/language_models.hpp"

namespace athanor {
namespace {

std::string class_name(const std::string& model_type) {
  if (model_type == "gpt2") {
    return "GPT2LMHeadModel";
  }
  if (model_type == "opt") {
    return "OPTForCausalLM";
  }
  if (model_type == "granitemoe") return "GraniteMoeForCausalLM";
  // "qwen3_moe" is Qwen3MoeForCausalLM.
  std::string name;
  bool starts = true;
  for (const char c : model_type) {
    if (c != '_') name += starts ? static_cast<char>(c - 'a' + 'A') : c;
    starts = c == '_';
  }
  return name + "ForCausalLM";
}

/// Adds the sizes that every family has under its own keys.
void add_shape(OrderedJson& json, const LanguageModelConfig& c) {
  json["vocab_size"] = c.vocab_size;
  json[hf_key(c.model_type, "hidden_size")] = c.hidden_size;
  json[hf_key(c.model_type, "num_layers")] = c.num_layers;
  json[hf_key(c.model_type, "num_heads")] = c.num_heads;
  json[hf_key(c.model_type, "max_positions")] = c.max_positions;
  json[hf_key(c.model_type, "activation")] = c.activation;
}

void add_gpt2(OrderedJson& json, const LanguageModelConfig& c) {
  json["n_inner"] = c.intermediate_size;
  json["layer_norm_epsilon"] = c.norm_epsilon;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    json[key] = 0.0;
  }
}

void add_opt(OrderedJson& json, const LanguageModelConfig& c) {
  json["word_embed_proj_dim"] = c.hidden_size;
  json["ffn_dim"] = c.intermediate_size;
  json["do_layer_norm_before"] = true;
  json["dropout"] = 0.0;
  json["pad_token_id"] = nullptr;  // transformers' default would freeze the row of token 1
}

void add_llama_family(OrderedJson& json, const LanguageModelConfig& c) {
  json["num_key_value_heads"] = c.num_kv_heads;
  json["head_dim"] = c.head_dim;
  json["intermediate_size"] = c.intermediate_size;
  json["rms_norm_eps"] = c.norm_epsilon;
  json["attention_dropout"] = 0.0;
  add_hf_attention(json, c);
  if (c.model_type == "llama") json["mlp_bias"] = c.mlp_bias;
  if (c.experts.exist()) add_hf_experts(json, c);
  add_hf_multipliers(json, c);
}

}  // namespace

std::string write_hf_config(const LanguageModelConfig& config, DataType dtype) {
  OrderedJson json;
  json["architectures"] = {class_name(config.model_type)};
  json["model_type"] = config.model_type;
  json["torch_dtype"] = name_of(kDataTypeNames, dtype);
  add_shape(json, config);
  if (config.model_type == "gpt2") {
    add_gpt2(json, config);
  } else if (config.model_type == "opt") {
    add_opt(json, config);
  } else {
    add_llama_family(json, config);
  }
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["bos_token_id"] = nullptr;  // athanor reads tokens and knows no special ones
  json["eos_token_id"] = nullptr;
  return dump_json(json);
}

}  // namespace athanor
