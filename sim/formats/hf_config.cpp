// SPDX-License-Identifier: Apache-2.0
// Reads a Hugging Face config.json. A setting that would change the mathematics in a way that
// athanor does not implement is refused, never ignored; dropout is ignored (athanor has none).
#include "sim/formats/hf_config.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "sim/families/families.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_attention.hpp"
#include "sim/formats/hf_experts.hpp"
#include "sim/formats/hf_keys.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/formats/traced_model.hpp"
#include "sim/model/language_model_checks.hpp"
#include "sim/model/language_models.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace athanor {
namespace {

/// One name for activation functions that have several.
std::string canonical_activation(const std::string& name) {
  if (name == "gelu_pytorch_tanh") {
    return "gelu_new";
  }
  return name == "swish" ? "silu" : name;
}

/// Reads the sizes that every family has under its own keys.
void read_shape(JsonReader& config, LanguageModelConfig& c) {
  const auto required = [&](const char* field) {
    return config.key(hf_key(c.model_type, field)).integer(1);
  };
  c.vocab_size = required("vocab_size");
  c.hidden_size = required("hidden_size");
  c.num_layers = required("num_layers");
  c.num_heads = required("num_heads");
  c.max_positions = required("max_positions");
}

void read_activation(JsonReader& config, const std::string& fallback, LanguageModelConfig& c) {
  const auto value = config.optional_key(hf_key(c.model_type, "activation"));
  c.activation = canonical_activation(value ? value->string() : fallback);
}

/// Width of one head where the file does not give it.
std::int64_t even_share(JsonReader& config, const LanguageModelConfig& c) {
  if (c.hidden_size % c.num_heads != 0) {
    config.path()
        .key(hf_key(c.model_type, "num_heads"))
        .reject(
            fmt::format("{} heads do not divide the hidden size {}", c.num_heads, c.hidden_size),
            "Choose a number of heads that divides it.");
  }
  return c.hidden_size / c.num_heads;
}

void use_biases_everywhere(LanguageModelConfig& c) {
  c.attention_bias = c.attention_output_bias = c.mlp_bias = true;
}

void read_gpt2(JsonReader& config, LanguageModelConfig& c) {
  c.num_kv_heads = c.num_heads;
  c.head_dim = even_share(config, c);
  c.intermediate_size = integer_or(config, "n_inner", 4 * c.hidden_size);
  c.norm_epsilon = number_or(config, "layer_norm_epsilon", 1e-5);
  c.tie_word_embeddings = boolean_or(config, "tie_word_embeddings", true);
  read_activation(config, "gelu_new", c);
  use_biases_everywhere(c);
  require_setting(config, "scale_attn_weights", true);
  require_setting(config, "scale_attn_by_inverse_layer_idx", false);
  require_setting(config, "reorder_and_upcast_attn", false);
  require_setting(config, "add_cross_attention", false);
}

void read_opt(JsonReader& config, LanguageModelConfig& c) {
  c.num_kv_heads = c.num_heads;
  c.head_dim = even_share(config, c);
  c.intermediate_size = config.key("ffn_dim").integer(1);
  c.tie_word_embeddings = boolean_or(config, "tie_word_embeddings", true);
  read_activation(config, "relu", c);
  use_biases_everywhere(c);
  const std::int64_t projection = integer_or(config, "word_embed_proj_dim", c.hidden_size);
  if (projection != c.hidden_size) {
    config.path()
        .key("word_embed_proj_dim")
        .reject(fmt::format("{} differs from hidden_size = {}", projection, c.hidden_size),
                "Models with projected embeddings (opt-350m) cannot be used.");
  }
  require_setting(config, "do_layer_norm_before", true);
  require_setting(config, "enable_bias", true);
  require_setting(config, "layer_norm_elementwise_affine", true);
  require_setting(config, "_remove_final_layer_norm", false);
}

/// Reads the width of one head, which need not be a share of hidden_size.
std::int64_t read_head_dim(JsonReader& config, const LanguageModelConfig& c) {
  const auto head_dim = config.optional_key("head_dim");
  if (head_dim) return head_dim->integer(1);
  const std::int64_t missing = missing_keys(c.model_type).head_dim;
  return missing > 0 && !config.has("head_dim") ? missing : even_share(config, c);
}

std::int64_t read_kv_heads(JsonReader& config, const LanguageModelConfig& c) {
  const std::int64_t missing = missing_keys(c.model_type).num_kv_heads;
  const bool is_missing = missing > 0 && !config.has("num_key_value_heads");
  return integer_or(config, "num_key_value_heads", is_missing ? missing : c.num_heads);
}

/// Refuses what makes a decoder an encoder: transformers 5 then lets a token attend to later ones.
void require_causal(JsonReader& config) {
  require_setting(config, "is_causal", true);
  require_setting(config, "use_bidirectional_attention", false);
}

void read_llama_family(JsonReader& config, LanguageModelConfig& c) {
  c.num_kv_heads = read_kv_heads(config, c);
  c.head_dim = read_head_dim(config, c);
  c.intermediate_size = config.key("intermediate_size").integer(1);
  c.norm_epsilon = number_or(config, "rms_norm_eps", missing_keys(c.model_type).norm_epsilon);
  c.tie_word_embeddings = boolean_or(config, "tie_word_embeddings", false);
  read_activation(config, "silu", c);
  read_hf_attention(config, c);
  if (c.model_type == "llama") c.mlp_bias = boolean_or(config, "mlp_bias", false);
  if (has_experts(c.model_type)) c.experts = read_hf_experts(config, c);
  c.multipliers = read_hf_multipliers(config, c);
}

/// Refuses quantized weights, but gpt_oss's experts in MXFP4: it is published in no other form, and
/// they are widened when they are read (executor/io/hf_folder_reader.hpp).
void require_trainable_weights(JsonReader& config, const LanguageModelConfig& c) {
  auto quantization = config.optional_key("quantization_config");
  if (!quantization) return;
  const auto method = quantization->optional_key("quant_method");
  if (c.model_type == "gpt_oss" && method && method->string() == "mxfp4") return;
  quantization->reject("quantized weights cannot be trained", "Use the unquantized model.");
}

std::string read_model_type(JsonReader& config) {
  const JsonReader model_type = config.key("model_type");
  std::string name = model_type.string();
  if (std::find(kModelTypes.begin(), kModelTypes.end(), name) == kModelTypes.end()) {
    model_type.reject(fmt::format("unknown model type '{}'", name),
                      fmt::format("To train: {}. Of {} more the sizes are known; sim/families "
                                  "lists them.",
                                  fmt::join(kModelTypes, ", "), num_known_families()));
  }
  return name;
}

/// Refuses a model whose head is another than a language model's: its weights would lack one. The
/// bare model, without any head, has a name without "For".
void require_language_model(JsonReader& config) {
  const auto classes = config.optional_key("architectures");
  if (!classes) return;
  for (const JsonReader& item : classes->items()) {
    const std::string name = item.string();
    const bool other = (name.find("For") != std::string::npos && !name.ends_with("ForCausalLM")) ||
                       name.find("DoubleHeads") != std::string::npos ||
                       name.find("Reward") != std::string::npos;
    if (other) {
      item.reject(fmt::format("'{}' is no language model that predicts the next token", name),
                  "Use the model's ...ForCausalLM.");
    }
  }
}

}  // namespace

LanguageModelConfig parse_hf_config(std::string_view text, const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  JsonReader config(document, ValuePath(where));
  LanguageModelConfig c;
  c.model_type = read_model_type(config);
  require_language_model(config);
  require_causal(config);
  read_shape(config, c);
  require_trainable_weights(config, c);
  if (c.model_type == "gpt2") {
    read_gpt2(config, c);
  } else if (c.model_type == "opt") {
    read_opt(config, c);
  } else {
    read_llama_family(config, c);
  }
  check_config(
      c, [&](std::string_view field) { return config.path().key(hf_key(c.model_type, field)); });
  return c;
}

LanguageModelConfig read_hf_config(const std::string& path) {
  return parse_hf_config(read_text_file(path, kMaxDocument), path);
}

Architecture parse_architecture(const std::string& name, std::string_view text,
                                const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  if (knows_sizes(document)) return make_known_architecture(name, document, where);
  return make_architecture(name, parse_hf_config(text, where));
}

/// Refuses what names no model: a folder of something else, such as the root of a hub's cache, or a
/// model's name on the hub.
[[noreturn]] void reject_absent_model(const std::string& name_or_path) {
  std::error_code status;
  if (std::filesystem::is_directory(name_or_path, status)) {
    throw InputError(name_or_path, "is a folder without a config.json",
                     "Give the one that holds it; in a cache of the Hugging Face hub that is "
                     "snapshots/REVISION.");
  }
  throw InputError(name_or_path, "neither a file nor a built-in model",
                   fmt::format("Give a folder with a config.json; of a model on the hub, `hf "
                               "download NAME --local-dir FOLDER` makes one. Built in: {}.",
                               fmt::join(builtin_architectures(), ", ")));
}

Architecture load_architecture(const std::string& name_or_path) {
  namespace fs = std::filesystem;
  std::error_code status;
  if (is_traced_folder(name_or_path)) return read_traced_folder(name_or_path).architecture;
  fs::path path = name_or_path;
  if (fs::is_directory(path, status)) path /= "config.json";
  // A model folder of the user's that has the name of a built-in model is what the user means.
  const auto builtin = builtin_config(name_or_path);
  if (builtin && !fs::exists(path, status)) return make_architecture(name_or_path, *builtin);
  if (!fs::exists(path, status)) reject_absent_model(name_or_path);
  const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  // The name is shown and stored; any bytes may name a folder.
  return parse_architecture(printable(folder.filename().string()),
                            read_text_file(path.string(), kMaxDocument), path.string());
}

}  // namespace athanor
