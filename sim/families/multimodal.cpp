// SPDX-License-Identifier: Apache-2.0
#include "sim/families/multimodal.hpp"

#include "sim/families/decoder.hpp"
#include "sim/families/dense.hpp"
#include "sim/families/encoders.hpp"
#include "sim/families/gated_delta.hpp"
#include "sim/families/mixtures.hpp"
#include "sim/families/pieces.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

namespace athanor::families {
namespace {

using MakeDecoder = Decoder (*)(const ConfigReader&);
constexpr std::array<std::pair<std::string_view, MakeDecoder>, 4> kLlavaTexts{
    {{"llama", llama}, {"mistral", mistral}, {"qwen2", qwen2}, {"qwen3", qwen3}}};

Decoder llava_text(const ConfigReader& text) {
  const std::string type = text.text("model_type", "llama");
  for (const auto& [name, make] : kLlavaTexts) {
    if (name == type) return make(text);
  }
  text.reject("model_type", fmt::format("the sizes of llava with '{}' are not known", type),
              "Known: llama, mistral, qwen2, qwen3.");
}

const DecoderPlace kInnerPlace{"model.language_model.", "", true};

Tensors add_tower_layer(ModelBuilder& model, const std::string& prefix, std::int64_t index) {
  return model.add(fmt::format("vision.{}", index), "vision", fmt::format("{}.{}.", prefix, index));
}

/// Tower of qwen2_vl and qwen3_vl.
struct QwenVision {
  std::int64_t width = 0, inner = 0, depth = 0, out = 0;
  std::int64_t channels = 0, patch = 0, frames = 0, merged = 0;  // merged: patches that become one
};

QwenVision read_qwen_vision(const ConfigReader& vision, std::int64_t depth, std::int64_t patch) {
  QwenVision v;
  v.depth = vision.count("depth", depth, kMaxBlocks);
  v.channels = vision.count("in_channels", 3);
  v.patch = vision.count("patch_size", patch);
  v.frames = vision.count("temporal_patch_size", 2);
  const std::int64_t side = vision.count("spatial_merge_size", 2, kMaxBlocks);
  v.merged = side * side;
  return v;
}

void add_qwen_layer(const Tensors& t, const QwenVision& v, const char* first, const char* second) {
  t.norm("norm1", v.width, Norm::Layer);
  t.norm("norm2", v.width, Norm::Layer);
  t.in("attn").linear("qkv", v.width, 3 * v.width, true);
  t.in("attn").linear("proj", v.width, v.width, true);
  t.attends(v.width, false);
  add_mlp(t.in("mlp"), first, second, v.width, v.inner);
}

/// Adds the convolution over patches of an image, or of some frames. Returns its unit.
Tensors add_qwen_patches(const QwenVision& v, bool bias, ModelBuilder& model) {
  Tensors t = model.add("vision.embedding", "vision.embedding", "model.visual.");
  const Tensors projection = t.in("patch_embed").in("proj");
  projection.matrix("weight", {v.width, v.channels, v.frames, v.patch, v.patch});
  if (bias) projection.vector("bias", {v.width});
  return t;
}

/// Merges patches into one vector of the text's width.
void add_qwen3_merger(const Tensors& t, const QwenVision& v, std::int64_t norm_width) {
  t.norm("norm", norm_width, Norm::Layer);
  const std::int64_t merged = v.merged * v.width;
  t.linear("linear_fc1", merged, merged, true);
  t.linear("linear_fc2", merged, v.out, true);
}

/// `merges_below`: whether layers below the last one are merged into the text, too.
void add_qwen3_vision(const ConfigReader& vision, bool merges_below, ModelBuilder& model) {
  QwenVision v = read_qwen_vision(vision, 27, 16);
  v.width = vision.count("hidden_size", 1152);
  v.inner = vision.count("intermediate_size", 4304);
  v.out = vision.count("out_hidden_size", 3584);
  add_qwen_patches(v, true, model)
      .table("pos_embed", vision.count("num_position_embeddings", 2304), v.width);
  for (std::int64_t i = 0; i < v.depth; ++i) {
    add_qwen_layer(add_tower_layer(model, "model.visual.blocks", i), v, "linear_fc1", "linear_fc2");
  }
  const Tensors end = model.add("vision.end", "vision.end", "model.visual.");
  add_qwen3_merger(end.in("merger"), v, v.width);
  if (!merges_below) return;
  const std::size_t further = vision.counts("deepstack_visual_indexes", {8, 16, 24}).size();
  for (std::size_t i = 0; i < further; ++i) {
    add_qwen3_merger(end.in("deepstack_merger_list", static_cast<std::int64_t>(i)), v,
                     v.merged * v.width);
  }
}

struct Llama4Vision {
  std::int64_t hidden = 0, inner = 0;
};

void add_llama4_layer(const Tensors& t, const Llama4Vision& v) {
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    t.in("self_attn").linear(name, v.hidden, v.hidden, true);
  }
  t.attends(v.hidden, false);
  add_mlp(t.in("mlp"), "fc1", "fc2", v.hidden, v.inner);
  add_both_norms(t, v.hidden, Norm::Layer);
}

void add_llama4_vision(const ConfigReader& vision, ModelBuilder& model) {
  const Llama4Vision v{vision.count("hidden_size", 768), vision.count("intermediate_size", 5632)};
  const std::int64_t side = vision.count("patch_size", 14, kMaxBlocks);
  const std::int64_t patches = num_patches(vision, vision.count("image_size", 448), side);
  const Tensors start = model.add("vision.embedding", "vision.embedding", "vision_model.");
  start.vector("class_embedding", {v.hidden});
  start.vector("positional_embedding_vlm", {patches + 1, v.hidden});
  start.in("patch_embedding")
      .linear("linear", vision.count("num_channels", 3) * side * side, v.hidden);
  start.norm("layernorm_pre", v.hidden, Norm::Layer);
  const std::int64_t layers = vision.count("num_hidden_layers", 34, kMaxBlocks);
  for (std::int64_t i = 0; i < layers; ++i) {
    add_llama4_layer(add_tower_layer(model, "vision_model.model.layers", i), v);
  }
  const Tensors end = model.add("vision.end", "vision.end", "vision_model.");
  end.norm("layernorm_post", v.hidden, Norm::Layer);
  const std::int64_t out = vision.count("projector_output_dim", 4096);
  end.in("vision_adapter")
      .in("mlp")
      .linear("fc1", v.inner, vision.count("projector_input_dim", 4096));
  end.in("vision_adapter").in("mlp").linear("fc2", out, out);
}

}  // namespace

void add_llava(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  const ConfigReader vision = config.object("vision_config");
  const std::string tower = vision.text("model_type", "clip_vision_model");
  if (tower != "clip_vision_model" || !config.has("vision_config")) {
    vision.reject("model_type", fmt::format("the sizes of llava with '{}' are not known", tower),
                  "Known: clip_vision_model.");
  }
  const Decoder text = llava_text(config.object("text_config"));
  add_clip_vision(vision, "model.vision_tower.vision_model.", model);
  const bool bias = config.flag("multimodal_projector_bias", true);
  const std::int64_t layers =
      config.is_list("vision_feature_layer") ? config.size("vision_feature_layer") : 1;
  const Tensors projector = model.add("projector", "projector", "model.multi_modal_projector.");
  projector.linear("linear_1", layers * vision.count("hidden_size", 768), text.width, bias);
  projector.linear("linear_2", text.width, text.width, bias);
  add_decoder(model, text, kInnerPlace);
}

void add_qwen2_vl(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  const ConfigReader vision = config.object("vision_config");
  QwenVision v = read_qwen_vision(vision, 32, 14);
  v.width = vision.count("embed_dim", 1280);
  v.inner = vision.count("mlp_ratio", 4) * v.width;
  v.out = vision.count("hidden_size", 3584);
  add_qwen_patches(v, false, model);
  for (std::int64_t i = 0; i < v.depth; ++i) {
    add_qwen_layer(add_tower_layer(model, "model.visual.blocks", i), v, "fc1", "fc2");
  }
  const Tensors merger = model.add("vision.end", "vision.end", "model.visual.").in("merger");
  merger.norm("ln_q", v.width, Norm::Layer);
  merger.in("mlp").linear("0", v.merged * v.width, v.merged * v.width, true);
  merger.in("mlp").linear("2", v.merged * v.width, v.out, true);
  // Older files have the text's keys beside vision_config.
  add_decoder(model,
              qwen2_vl_text(config.has("text_config") ? config.object("text_config") : config),
              kInnerPlace);
}

void add_qwen3_vl(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  add_qwen3_vision(config.object("vision_config"), true, model);
  add_decoder(model, qwen3(config.object("text_config")), kInnerPlace);
}

void add_qwen3_vl_moe(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  add_qwen3_vision(config.object("vision_config"), true, model);
  add_decoder(model, qwen3_vl_moe_text(config.object("text_config")), kInnerPlace);
}

void add_qwen3_5(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  add_qwen3_vision(config.object("vision_config"), false, model);
  add_decoder(model, qwen3_5(config.object("text_config")), kInnerPlace);
}

void add_llama4(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  const ConfigReader vision = config.object("vision_config");
  const Decoder text = llama4_text(config.object("text_config"));
  add_llama4_vision(vision, model);
  model.add("projector", "projector", "multi_modal_projector.")
      .linear("linear_1", vision.count("vision_output_dim", 7680), text.width);
  add_decoder(model, text, {"language_model.model.", "language_model.", true});
}

}  // namespace athanor::families
