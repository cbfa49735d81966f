// SPDX-License-Identifier: Apache-2.0
// Reads a Hugging Face config.json. A setting that would change the mathematics in a way that
// athanor does not implement is refused, never ignored; dropout is ignored (athanor has none).
#include "sim/formats/hf_config.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "sim/families/families.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_experts.hpp"
#include "sim/formats/hf_keys.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/formats/traced_model.hpp"
#include "sim/model/language_model_checks.hpp"
#include "sim/model/language_models.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

namespace athanor {
namespace {

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

/// Refuses a switch that is not at the one setting that athanor implements.
void require_setting(JsonReader& config, const std::string& key, bool setting) {
  if (boolean_or(config, key, setting) != setting) {
    config.path().key(key).reject(fmt::format("{} is not supported", !setting),
                                  fmt::format("Only models with {} can be used.", setting));
  }
}

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

/// Returns the type of scaling under its new name; empty for none. `rope` is rope_scaling or
/// rope_parameters.
std::string rope_type_of(JsonReader& rope) {
  auto type = rope.optional_key("rope_type");
  if (!type) type = rope.optional_key("type");
  if (!type) return "";
  std::string name = type->string();
  if (name == "default") return "";
  if (name == "su") return "longrope";
  if (name == "linear" || name == "dynamic" || name == "llama3" || name == "yarn" ||
      name == "longrope") {
    return name;
  }
  type->reject(fmt::format("'{}' is not supported", name),
               "Supported: default, linear, dynamic, llama3, yarn, longrope.");
}

double positive_or(JsonReader& json, const std::string& key, double fallback) {
  const auto value = json.optional_key(key);
  return value && value->number() != 0 ? value->number() : fallback;
}

/// Returns the factor of cosines and sines that yarn's paper suggests.
double yarn_attention_factor(JsonReader& rope, double factor) {
  const auto magnitude = [factor](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  const double scale = number_or(rope, "mscale", 0);
  const double scale_all = number_or(rope, "mscale_all_dim", 0);
  return scale != 0 && scale_all != 0 ? magnitude(scale) / magnitude(scale_all) : magnitude(1);
}

std::vector<double> read_factors(const JsonReader& json) {
  std::vector<double> factors;
  for (const JsonReader& item : json.items()) factors.push_back(item.number());
  return factors;
}

void read_longrope(JsonReader& config, JsonReader& rope, const LanguageModelConfig& c,
                   RopeScaling& scaling) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  auto original = config.optional_key(kOriginal);
  if (!original) original = rope.optional_key(kOriginal);
  scaling.original_positions = original ? original->integer(1) : c.max_positions;
  const double ratio =
      static_cast<double>(c.max_positions) / static_cast<double>(scaling.original_positions);
  const double factor = original ? ratio : number_or(rope, "factor", 1);
  const double positions = static_cast<double>(scaling.original_positions);
  scaling.factor = factor;
  scaling.attention_factor =
      positive_or(rope, "attention_factor",
                  factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(positions)));
  scaling.short_factor = read_factors(rope.key("short_factor"));
  scaling.long_factor = read_factors(rope.key("long_factor"));
}

/// Reads the scaling of rope_scaling or rope_parameters. What a key means is transformers'
/// (modeling_rope_utils.py).
RopeScaling read_scaling(JsonReader& config, JsonReader& rope, const LanguageModelConfig& c) {
  RopeScaling scaling;
  scaling.type = rope_type_of(rope);
  if (scaling.is_none()) return scaling;
  if (scaling.type == "longrope") {
    read_longrope(config, rope, c, scaling);
    return scaling;
  }
  scaling.factor = rope.key("factor").number();
  if (scaling.type == "linear") return scaling;
  scaling.original_positions = c.max_positions;
  if (scaling.type == "dynamic") return scaling;
  const char* original = "original_max_position_embeddings";
  if (scaling.type == "llama3") {
    scaling.original_positions = rope.key(original).integer(1);
    scaling.low_frequency_factor = rope.key("low_freq_factor").number();
    scaling.high_frequency_factor = rope.key("high_freq_factor").number();
    return scaling;
  }
  scaling.original_positions = integer_or(rope, original, c.max_positions);
  scaling.beta_fast = positive_or(rope, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = positive_or(rope, "beta_slow", scaling.beta_slow);
  scaling.truncate = boolean_or(rope, "truncate", true);
  scaling.attention_factor =
      positive_or(rope, "attention_factor", yarn_attention_factor(rope, scaling.factor));
  return scaling;
}

void read_rope(JsonReader& config, LanguageModelConfig& c) {
  c.rope_theta = number_or(config, "rope_theta", 10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    auto rope = config.optional_key(key);
    if (!rope) continue;
    c.rope_theta = number_or(*rope, "rope_theta", c.rope_theta);
    c.rope_scaling = read_scaling(config, *rope, c);
  }
  if (number_or(config, "partial_rotary_factor", 1.0) != 1.0) {
    config.path()
        .key("partial_rotary_factor")
        .reject("a partial rotation is not supported", "Only 1.0 can be used.");
  }
}

/// Reads mistral's window of every layer. Null means full attention, and a missing key means 4096.
void read_mistral_window(JsonReader& config, LanguageModelConfig& c) {
  constexpr std::int64_t kDefaultWindow = 4096;
  c.sliding_window =
      integer_or(config, "sliding_window", config.has("sliding_window") ? 0 : kDefaultWindow);
}

/// Whether layer types are given and all of them slide; refuses a mixture.
bool all_layers_slide(JsonReader& config, std::int64_t num_layers) {
  const auto types = config.optional_key("layer_types");
  if (!types) {
    const std::int64_t first =
        config.has("max_window_layers") ? config.key("max_window_layers").integer(0) : 28;
    if (first > 0 && first < num_layers) {
      config.path()
          .key("max_window_layers")
          .reject(fmt::format("a sliding window in layers {} to {} alone is not supported", first,
                              num_layers - 1),
                  "All layers must have it, or none.");
    }
    return first == 0;
  }
  const std::vector<JsonReader> items = types->items();
  for (const JsonReader& item : items) {
    if (item.string() != items.front().string()) {
      item.reject("layers of different types are not supported", "All must be of one type.");
    }
  }
  return !items.empty() && items.front().string() == "sliding_attention";
}

void read_qwen_window(JsonReader& config, LanguageModelConfig& c) {
  constexpr std::int64_t kDefaultWindow = 4096;
  if (boolean_or(config, "use_sliding_window", false) && all_layers_slide(config, c.num_layers)) {
    c.sliding_window =
        integer_or(config, "sliding_window", config.has("sliding_window") ? 0 : kDefaultWindow);
  }
}

void read_llama_biases(JsonReader& config, LanguageModelConfig& c) {
  if (c.model_type == "qwen2") {
    c.attention_bias = true;
  } else if (c.model_type == "qwen2_moe") {
    c.attention_bias = boolean_or(config, "qkv_bias", true);
  } else if (c.model_type != "mistral" && c.model_type != "mixtral") {
    c.attention_bias = c.attention_output_bias = boolean_or(config, "attention_bias", false);
  }
  if (c.model_type == "llama") {
    c.mlp_bias = boolean_or(config, "mlp_bias", false);
  }
}

/// Reads the window of a mixture's layers, which all have the same.
void read_mixture_window(JsonReader& config, LanguageModelConfig& c) {
  if (c.model_type == "qwen2_moe") require_setting(config, "use_sliding_window", false);
  const bool slides =
      c.model_type == "mixtral" ||
      (c.model_type == "qwen3_moe" && boolean_or(config, "use_sliding_window", false));
  if (slides) c.sliding_window = integer_or(config, "sliding_window", 0);
}

void read_window(JsonReader& config, LanguageModelConfig& c) {
  if (has_experts(c.model_type)) {
    read_mixture_window(config, c);
  } else if (c.model_type == "mistral") {
    read_mistral_window(config, c);
  } else if (c.model_type != "llama") {
    read_qwen_window(config, c);
  }
}

void read_llama_family(JsonReader& config, LanguageModelConfig& c) {
  c.num_kv_heads = integer_or(config, "num_key_value_heads", c.num_heads);
  const auto head_dim = config.optional_key("head_dim");
  c.head_dim = head_dim ? head_dim->integer(1) : even_share(config, c);
  c.intermediate_size = config.key("intermediate_size").integer(1);
  c.norm_epsilon = number_or(config, "rms_norm_eps", 1e-6);
  c.tie_word_embeddings = boolean_or(config, "tie_word_embeddings", false);
  read_activation(config, "silu", c);
  read_rope(config, c);
  read_llama_biases(config, c);
  read_window(config, c);
  if (has_experts(c.model_type)) c.experts = read_hf_experts(config, c);
  c.multipliers = read_hf_multipliers(config, c);
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
  read_shape(config, c);
  if (const auto quantization = config.optional_key("quantization_config")) {
    quantization->reject("quantized weights cannot be trained", "Use the unquantized model.");
  }
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

Architecture load_architecture(const std::string& name_or_path) {
  namespace fs = std::filesystem;
  std::error_code status;
  if (is_traced_folder(name_or_path)) return read_traced_folder(name_or_path).architecture;
  fs::path path = name_or_path;
  if (fs::is_directory(path, status)) path /= "config.json";
  // A model folder of the user's that has the name of a built-in model is what the user means.
  const auto builtin = builtin_config(name_or_path);
  if (builtin && !fs::exists(path, status)) return make_architecture(name_or_path, *builtin);
  if (!fs::exists(path, status)) {
    throw InputError(name_or_path, "neither a file nor a built-in model",
                     fmt::format("Give a folder with a config.json, or one of {}.",
                                 fmt::join(builtin_architectures(), ", ")));
  }
  const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  // The name is shown and stored; any bytes may name a folder.
  return parse_architecture(printable(folder.filename().string()),
                            read_text_file(path.string(), kMaxDocument), path.string());
}

}  // namespace athanor
