// SPDX-License-Identifier: Apache-2.0
// Keys and their defaults mean what they mean to transformers (modeling_rope_utils.py and the
// families' configurations).
#include "sim/formats/hf_attention.hpp"

#include "sim/formats/hf_keys.hpp"
#include "sim/model/language_models.hpp"

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <vector>

namespace athanor {
namespace {

constexpr const char* kGptOss = "gpt_oss";

/// Returns the type of scaling under its new name; empty for none. `rope` is rope_scaling or
/// rope_parameters.
std::string rope_type_of(JsonReader& rope) {
  auto type = rope.optional_key("rope_type");
  if (!type) type = rope.optional_key("type");
  if (!type) {
    if (rope.has("factor")) {
      rope.key("factor").reject("scales nothing, as no rope_type says how",
                                "Add \"rope_type\": linear, dynamic, llama3, yarn or longrope.");
    }
    return "";
  }
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

double yarn_magnitude(double scale, double factor) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

/// Returns the factor of cosines and sines that yarn's paper suggests.
double yarn_attention_factor(JsonReader& rope, double factor) {
  const double scale = number_or(rope, "mscale", 0);
  const double scale_all = number_or(rope, "mscale_all_dim", 0);
  return scale != 0 && scale_all != 0
             ? yarn_magnitude(scale, factor) / yarn_magnitude(scale_all, factor)
             : yarn_magnitude(1, factor);
}

std::vector<double> read_factors(const JsonReader& json) {
  std::vector<double> factors;
  for (const JsonReader& item : json.items()) factors.push_back(item.number());
  return factors;
}

void read_longrope(JsonReader& config, JsonReader& rope, const LanguageModelConfig& c,
                   RopeScaling& scaling) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const auto beside = config.optional_key(kOriginal);
  auto original = beside;
  if (!original) original = rope.optional_key(kOriginal);
  scaling.original_positions = original ? original->integer(1) : c.max_positions;
  const double ratio =
      static_cast<double>(c.max_positions) / static_cast<double>(scaling.original_positions);
  // Beside the scaling, it stands for the factor; within it, the factor may say something else.
  const double factor = beside ? ratio : number_or(rope, "factor", original ? ratio : 1);
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

/// The scaling of a gpt_oss whose file names none.
RopeScaling gpt_oss_scaling() {
  RopeScaling scaling;
  scaling.type = "yarn";
  scaling.factor = 32;
  scaling.original_positions = 4096;
  scaling.truncate = false;
  scaling.attention_factor = yarn_magnitude(1, scaling.factor);
  return scaling;
}

/// transformers 4 has the key beside the scaling, and transformers 5 in it.
void require_whole_rotation(JsonReader& json) {
  constexpr const char* kKey = "partial_rotary_factor";
  if (number_or(json, kKey, 1.0) == 1.0) return;
  json.key(kKey).reject("a partial rotation is not supported", "Only 1.0 can be used.");
}

/// Refuses rotations that differ from layer to layer: an object for each type of layers.
void require_one_rotation(JsonReader& rope) {
  require_whole_rotation(rope);
  for (const char* type : {"full_attention", "sliding_attention"}) {
    if (!rope.has(type)) continue;
    rope.key(type).reject("a rotation for each type of layers is not supported",
                          "All layers must have the same: give its keys without the type.");
  }
}

void read_rope(JsonReader& config, LanguageModelConfig& c) {
  const bool is_gpt_oss = c.model_type == kGptOss;
  c.rope_theta = number_or(config, "rope_theta", missing_keys(c.model_type).rope_theta);
  if (is_gpt_oss && !config.has("rope_scaling") && !config.has("rope_parameters")) {
    c.rope_scaling = gpt_oss_scaling();
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    auto rope = config.optional_key(key);
    if (!rope) continue;
    require_one_rotation(*rope);
    c.rope_theta = number_or(*rope, "rope_theta", c.rope_theta);
    c.rope_scaling = read_scaling(config, *rope, c);
  }
  require_whole_rotation(config);
}

bool is_full_attention(const JsonReader& type) {
  const std::string name = type.string();
  if (name != "full_attention" && name != "sliding_attention") {
    type.reject(fmt::format("layers of type '{}' are not supported", name),
                "Supported: full_attention, sliding_attention.");
  }
  return name == "full_attention";
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
    const bool fallback = c.model_type == kGptOss;
    c.attention_bias = c.attention_output_bias = boolean_or(config, "attention_bias", fallback);
  }
}

/// Reads which of gpt_oss's layers have the window: every other one, from the first on, where the
/// file does not say.
void read_gpt_oss_windows(JsonReader& config, LanguageModelConfig& c) {
  constexpr std::int64_t kDefaultWindow = 128;
  std::vector<std::int64_t> full;
  if (const auto types = config.optional_key("layer_types")) {
    const std::vector<JsonReader> items = types->items();
    if (std::ssize(items) != c.num_layers) {
      types->reject(fmt::format("{} types for {} layers", items.size(), c.num_layers),
                    "Give one for each layer.");
    }
    for (std::int64_t i = 0; i < c.num_layers; ++i) {
      if (is_full_attention(items[static_cast<std::size_t>(i)])) full.push_back(i);
    }
  } else {
    for (std::int64_t i = 1; i < c.num_layers; i += 2) full.push_back(i);
  }
  const bool slides = std::ssize(full) < c.num_layers;
  if (!slides) return;
  // transformers makes no model of null.
  c.sliding_window =
      config.has("sliding_window") ? config.key("sliding_window").integer(1) : kDefaultWindow;
  c.full_attention_blocks = full;
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
  if (c.model_type == kGptOss) {
    read_gpt_oss_windows(config, c);
  } else if (has_experts(c.model_type)) {
    read_mixture_window(config, c);
  } else if (c.model_type == "mistral") {
    read_mistral_window(config, c);
  } else if (c.model_type != "llama") {
    read_qwen_window(config, c);
  }
}

void add_gpt_oss_windows(OrderedJson& json, const LanguageModelConfig& c) {
  if (c.sliding_window > 0) json["sliding_window"] = c.sliding_window;
  json["layer_types"] = OrderedJson::array();
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    json["layer_types"].push_back(window_of(c, i) > 0 ? "sliding_attention" : "full_attention");
  }
}

void add_windows(OrderedJson& json, const LanguageModelConfig& c) {
  if (c.model_type == kGptOss) return add_gpt_oss_windows(json, c);
  const bool slides = c.sliding_window > 0;
  if (c.model_type != "mistral" && c.model_type != "mixtral") {
    json["use_sliding_window"] = slides;
    json["max_window_layers"] = slides ? 0 : c.num_layers;
  }
  json["sliding_window"] = slides ? OrderedJson(c.sliding_window) : OrderedJson(nullptr);
}

OrderedJson json_of_scaling(const RopeScaling& s) {
  OrderedJson json{{"rope_type", s.type}, {"factor", s.factor}};
  if (s.type == "llama3") {
    json["low_freq_factor"] = s.low_frequency_factor;
    json["high_freq_factor"] = s.high_frequency_factor;
  }
  if (s.type == "llama3" || s.type == "yarn") {
    json["original_max_position_embeddings"] = s.original_positions;
  }
  if (s.type == "yarn") {
    json["beta_fast"] = s.beta_fast;
    json["beta_slow"] = s.beta_slow;
    json["truncate"] = s.truncate;
  }
  if (s.type == "yarn" || s.type == "longrope") json["attention_factor"] = s.attention_factor;
  if (s.type == "longrope") {
    json["short_factor"] = s.short_factor;
    json["long_factor"] = s.long_factor;
  }
  return json;
}

void add_rope(OrderedJson& json, const LanguageModelConfig& c) {
  json["rope_theta"] = c.rope_theta;
  if (c.rope_scaling.is_none()) {
    // Without the key, gpt_oss would have a scaling.
    if (c.model_type == kGptOss) json["rope_scaling"] = nullptr;
    return;
  }
  json["rope_scaling"] = json_of_scaling(c.rope_scaling);
  if (c.rope_scaling.type == "longrope") {
    // transformers looks for it beside the scaling, not in it.
    json["original_max_position_embeddings"] = c.rope_scaling.original_positions;
  }
}

}  // namespace

void read_hf_attention(JsonReader& config, LanguageModelConfig& c) {
  read_rope(config, c);
  read_llama_biases(config, c);
  read_window(config, c);
}

void add_hf_attention(OrderedJson& json, const LanguageModelConfig& c) {
  add_rope(json, c);
  const bool is_one_of_qwen2 = c.model_type == "qwen2" || c.model_type == "qwen2_moe";
  const bool has_window =
      c.model_type != "llama" && c.model_type != "olmoe" && c.model_type != "granitemoe";
  if (!is_one_of_qwen2 && c.model_type != "mistral" && c.model_type != "mixtral") {
    json["attention_bias"] = c.attention_bias;
  }
  if (c.model_type == "qwen2_moe") json["qkv_bias"] = c.attention_bias;
  if (has_window) add_windows(json, c);
}

}  // namespace athanor
