// SPDX-License-Identifier: Apache-2.0
#include "sim/families/image_classifiers.hpp"

#include "sim/families/encoders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace athanor::families {
namespace {

constexpr double kMaxEpsilon = 1;
constexpr double kMaxScale = 1e6;

std::string read_activation(const ConfigReader& config) {
  constexpr std::array<std::string_view, 4> kKnown{"gelu", "gelu_new", "relu", "silu"};
  std::string name = config.text("hidden_act", "gelu");
  if (name == "gelu_pytorch_tanh") name = "gelu_new";
  if (name == "swish") name = "silu";
  if (std::ranges::find(kKnown, name) == kKnown.end()) {
    config.reject("hidden_act", fmt::format("unknown activation '{}'", name),
                  "Use a model with gelu, gelu_new, relu or silu.");
  }
  return name;
}

/// Refuses what is no choice of one label by cross-entropy.
void require_one_label(const ConfigReader& config, std::int64_t labels) {
  const std::string problem =
      config.has("problem_type") ? config.text("problem_type", "") : "single_label_classification";
  if (problem != "single_label_classification") {
    config.reject("problem_type", fmt::format("'{}' is not trained here", problem),
                  "Images have one label each: use single_label_classification.");
  }
  if (labels < 2) {
    config.reject("id2label", "one label is a regression in transformers",
                  "Save the model with num_labels=2 or more.");
  }
  if (config.has("quantization_config")) {
    config.reject("quantization_config", "quantized weights cannot be trained",
                  "Use the unquantized model.");
  }
}

ImageClassifierConfig read_common(const ConfigReader& config, std::int64_t patch, double epsilon) {
  ImageClassifierConfig c;
  c.hidden_size = config.count("hidden_size", 768);
  c.num_layers = config.count("num_hidden_layers", 12, kMaxBlocks);
  c.num_heads = config.count("num_attention_heads", 12);
  static_cast<void>(config.share("num_attention_heads", c.hidden_size, c.num_heads));
  c.image_size = config.count("image_size", 224);
  c.patch_size = config.count("patch_size", patch);
  c.num_channels = config.count("num_channels", 3);
  c.num_labels = num_labels(config);
  c.norm_epsilon = config.number("layer_norm_eps", epsilon, kMaxEpsilon);
  c.activation = read_activation(config);
  c.qkv_bias = config.flag("qkv_bias", true);
  require_one_label(config, c.num_labels);
  return c;
}

ImageClassifierConfig read_vit(const ConfigReader& config) {
  ImageClassifierConfig c = read_common(config, 16, 1e-12);
  c.model_type = "vit";
  c.intermediate_size = config.count("intermediate_size", 3072);
  return c;
}

ImageClassifierConfig read_dinov2(const ConfigReader& config) {
  ImageClassifierConfig c = read_common(config, 14, 1e-6);
  c.model_type = "dinov2";
  c.gated = config.flag("use_swiglu_ffn", false);
  c.intermediate_size = config.count("mlp_ratio", 4) * c.hidden_size;
  if (c.gated) c.intermediate_size = gated_width(c.intermediate_size);
  c.mask_token = config.flag("use_mask_token", true);
  c.layer_scale = config.number("layerscale_value", 1, kMaxScale);
  return c;
}

}  // namespace

std::optional<ImageClassifierConfig> read_image_classifier(const ConfigReader& config,
                                                           const std::string& class_name) {
  if (class_name == "ViTForImageClassification") return read_vit(config);
  if (class_name == "Dinov2ForImageClassification") return read_dinov2(config);
  return std::nullopt;
}

}  // namespace athanor::families
