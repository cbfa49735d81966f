// SPDX-License-Identifier: Apache-2.0
// clip and siglip: a tower of text and one of images.
#include "sim/families/encoders.hpp"
#include "sim/families/pieces.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor::families {
namespace {

struct Tower {
  std::int64_t hidden = 0, inner = 0, layers = 0;
};

Tower read_tower(const ConfigReader& config, std::int64_t hidden, std::int64_t inner) {
  return {config.count("hidden_size", hidden), config.count("intermediate_size", inner),
          config.count("num_hidden_layers", 12, kMaxBlocks)};
}

void add_layer(const Tensors& t, const Tower& tower) {
  for (const char* name : {"k_proj", "v_proj", "q_proj", "out_proj"}) {
    t.in("self_attn").linear(name, tower.hidden, tower.hidden, true);
  }
  t.attends(tower.hidden, false);
  t.norm("layer_norm1", tower.hidden, Norm::Layer);
  add_mlp(t.in("mlp"), "fc1", "fc2", tower.hidden, tower.inner);
  t.norm("layer_norm2", tower.hidden, Norm::Layer);
}

/// Adds the layers; units and classes are called by `kind`.
void add_layers(const char* kind, const std::string& prefix, const Tower& tower,
                ModelBuilder& model) {
  for (std::int64_t i = 0; i < tower.layers; ++i) {
    add_layer(model.add(fmt::format("{}.{}", kind, i), kind,
                        fmt::format("{}encoder.layers.{}.", prefix, i)),
              tower);
  }
}

/// Adds tables, layers and the last norm of a tower of text. Returns its end.
Tensors add_text(const ConfigReader& config, const Tower& tower, std::int64_t vocab,
                 std::int64_t positions, const std::string& prefix, ModelBuilder& model) {
  const Tensors tables = model.add("text.embedding", "text.embedding", prefix).in("embeddings");
  tables.table("token_embedding", config.count("vocab_size", vocab), tower.hidden);
  tables.table("position_embedding", config.count("max_position_embeddings", positions),
               tower.hidden);
  add_layers("text", prefix, tower, model);
  Tensors end = model.add("text.end", "text.end", prefix);
  end.norm("final_layer_norm", tower.hidden, Norm::Layer);
  return end;
}

void add_patches(const Tensors& t, const ConfigReader& config, std::int64_t hidden,
                 std::int64_t patch, std::int64_t more_positions) {
  const std::int64_t side = config.count("patch_size", patch);
  const std::int64_t patches = num_patches(config, config.count("image_size", 224), side);
  t.in("patch_embedding").matrix("weight", {hidden, config.count("num_channels", 3), side, side});
  t.table("position_embedding", patches + more_positions, hidden);
}

void add_siglip_pooling(const Tensors& t, const Tower& tower) {
  t.vector("probe", {1, 1, tower.hidden});
  t.in("attention").matrix("in_proj_weight", {3 * tower.hidden, tower.hidden});
  t.in("attention").vector("in_proj_bias", {3 * tower.hidden});
  t.in("attention").linear("out_proj", tower.hidden, tower.hidden, true);
  t.norm("layernorm", tower.hidden, Norm::Layer);
  add_mlp(t.in("mlp"), "fc1", "fc2", tower.hidden, tower.inner);
}

void add_siglip_vision(const ConfigReader& config, const Tower& tower, ModelBuilder& model) {
  const Tensors patches =
      model.add("vision.embedding", "vision.embedding", "vision_model.").in("embeddings");
  add_patches(patches, config, tower.hidden, 16, 0);
  patches.in("patch_embedding").vector("bias", {tower.hidden});
  add_layers("vision", "vision_model.", tower, model);
  const Tensors end = model.add("vision.end", "vision.end", "vision_model.");
  end.norm("post_layernorm", tower.hidden, Norm::Layer);
  if (config.flag("vision_use_head", true)) add_siglip_pooling(end.in("head"), tower);
}

/// Part of clip's configuration. A part under the older key replaces the one under the newer.
ConfigReader part(const ConfigReader& config, const char* key, const char* older_key) {
  return config.object(config.has(older_key) ? older_key : key);
}

constexpr std::int64_t kTextWidth = 512, kTextInner = 2048, kClipVocab = 49408, kClipPositions = 77,
                       kImageWidth = 768, kImageInner = 3072;

}  // namespace

void add_clip_vision(const ConfigReader& config, const std::string& prefix, ModelBuilder& model) {
  const Tower tower = read_tower(config, kImageWidth, kImageInner);
  const Tensors start = model.add("vision.embedding", "vision.embedding", prefix);
  start.in("embeddings").vector("class_embedding", {tower.hidden});
  add_patches(start.in("embeddings"), config, tower.hidden, 32, 1);
  start.norm("pre_layrnorm", tower.hidden, Norm::Layer);  // transformers' spelling
  add_layers("vision", prefix, tower, model);
  model.add("vision.end", "vision.end", prefix).norm("post_layernorm", tower.hidden, Norm::Layer);
}

void add_clip(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const bool both = head == "Model";
  const ConfigReader text = both ? part(config, "text_config", "text_config_dict") : config;
  const ConfigReader vision = both ? part(config, "vision_config", "vision_config_dict") : config;
  const Tower words = read_tower(text, kTextWidth, kTextInner);
  if (head != "VisionModel") {
    add_text(text, words, kClipVocab, kClipPositions, "text_model.", model);
  }
  if (head != "TextModel") add_clip_vision(vision, "vision_model.", model);
  if (!both) return;
  const std::int64_t width = config.count("projection_dim", 512);
  const Tensors t = model.add("head", "head", "");
  t.vector("logit_scale", {});
  t.linear("visual_projection", vision.count("hidden_size", kImageWidth), width);
  t.linear("text_projection", words.hidden, width);
}

void add_siglip(const ConfigReader& config, std::string_view /*head*/, ModelBuilder& model) {
  const ConfigReader text = config.object("text_config");
  const ConfigReader vision = config.object("vision_config");
  const Tower words = read_tower(text, kImageWidth, kImageInner);
  const Tensors end = add_text(text, words, 32000, 64, "text_model.", model);
  end.linear("head", words.hidden, text.count_or("projection_size", words.hidden, words.hidden),
             true);
  add_siglip_vision(vision, read_tower(vision, kImageWidth, kImageInner), model);
  const Tensors t = model.add("head", "head", "");
  t.vector("logit_scale", {1});
  t.vector("logit_bias", {1});
}

}  // namespace athanor::families
