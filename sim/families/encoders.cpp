// SPDX-License-Identifier: Apache-2.0
// bert, roberta, vit and dinov2: encoders whose layers go back to bert's.
#include "sim/families/encoders.hpp"

#include "sim/families/pieces.hpp"

#include <fmt/format.h>

namespace athanor::families {
namespace {

struct Encoder {
  std::int64_t hidden = 0, inner = 0, layers = 0;
};

Encoder read_encoder(const ConfigReader& config) {
  return {config.count("hidden_size", 768), config.count("intermediate_size", 3072),
          config.count("num_hidden_layers", 12, kMaxBlocks)};
}

/// Queries, keys and values in the module `self`, and the output projection.
void add_self_attention(const Tensors& t, const char* self, std::int64_t hidden, bool bias) {
  for (const char* name : {"query", "key", "value"}) t.in(self).linear(name, hidden, hidden, bias);
  t.in("output").linear("dense", hidden, hidden, true);
  t.attends(hidden, false);
}

void add_perceptron(const Tensors& t, const Encoder& e) {
  t.in("intermediate").linear("dense", e.hidden, e.inner, true);
  t.in("output").linear("dense", e.inner, e.hidden, true);
}

void add_bert_layer(const Tensors& t, const Encoder& e) {
  add_self_attention(t.in("attention"), "self", e.hidden, true);
  t.in("attention").in("output").norm("LayerNorm", e.hidden, Norm::Layer);
  add_perceptron(t, e);
  t.in("output").norm("LayerNorm", e.hidden, Norm::Layer);
}

/// Adds the tables and layers of bert and its descendants.
void add_bert_stack(const ConfigReader& config, const std::string& prefix, std::int64_t vocab,
                    std::int64_t segments, ModelBuilder& model) {
  const Encoder e = read_encoder(config);
  config.require("is_decoder", false, false);
  config.require("add_cross_attention", false, false);
  const Tensors tables = model.add("embedding", "embedding", prefix).in("embeddings");
  tables.table("word_embeddings", vocab, e.hidden);
  tables.table("position_embeddings", config.count("max_position_embeddings", 512), e.hidden);
  tables.table("token_type_embeddings", segments, e.hidden);
  tables.norm("LayerNorm", e.hidden, Norm::Layer);
  for (std::int64_t i = 0; i < e.layers; ++i) {
    add_bert_layer(model.add(fmt::format("block.{}", i), "block",
                             fmt::format("{}encoder.layer.{}.", prefix, i)),
                   e);
  }
}

/// Adds the product with the table of words, or with one of its own.
void add_decoder_of_words(const Tensors& head, const char* name, const std::string& table,
                          std::int64_t vocab, std::int64_t hidden, bool tied) {
  if (tied) return head.borrow(0, table, vocab * hidden);
  head.linear(name, hidden, vocab);
}

struct Image {
  std::int64_t hidden = 0, channels = 0, patch = 0, patches = 0;
};

Image read_image(const ConfigReader& config, std::int64_t patch) {
  Image image;
  image.hidden = config.count("hidden_size", 768);
  image.channels = config.count("num_channels", 3);
  image.patch = config.count("patch_size", patch);
  image.patches = num_patches(config, config.count("image_size", 224), image.patch);
  return image;
}

void add_image_embedding(const Tensors& t, const Image& image, bool mask_token) {
  t.vector("cls_token", {1, 1, image.hidden});
  if (mask_token) t.vector("mask_token", {1, image.hidden});
  t.vector("position_embeddings", {1, image.patches + 1, image.hidden});
  const Tensors projection = t.in("patch_embeddings").in("projection");
  projection.matrix("weight", {image.hidden, image.channels, image.patch, image.patch});
  projection.vector("bias", {image.hidden});
}

void add_vit_layer(const Tensors& t, const Encoder& e, bool bias) {
  add_self_attention(t.in("attention"), "attention", e.hidden, bias);
  add_perceptron(t, e);
  t.norm("layernorm_before", e.hidden, Norm::Layer);
  t.norm("layernorm_after", e.hidden, Norm::Layer);
}

/// Perceptron of dinov2: two projections, or three of which two are one tensor.
void add_dinov2_mlp(const Tensors& t, std::int64_t hidden, std::int64_t inner, bool gated) {
  if (!gated) return add_mlp(t, "fc1", "fc2", hidden, inner);
  t.linear("weights_in", hidden, 2 * gated_width(inner), true);
  t.linear("weights_out", gated_width(inner), hidden, true);
}

}  // namespace

std::int64_t num_labels(const ConfigReader& config) {
  constexpr std::int64_t kDefault = 2;
  if (config.has("id2label")) return config.size("id2label");
  return config.count("num_labels", kDefault);
}

std::int64_t gated_width(std::int64_t inner) {
  constexpr std::int64_t kMultiple = 8;
  return (2 * inner / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

std::int64_t num_patches(const ConfigReader& config, std::int64_t image, std::int64_t patch) {
  if (image < patch) config.reject("image_size", "is smaller than a patch", "Use a larger one.");
  return (image / patch) * (image / patch);
}

void add_bert(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const std::string prefix = head == "Model" ? "" : "bert.";
  const std::int64_t vocab = config.count("vocab_size", 30522);
  const std::int64_t hidden = config.count("hidden_size", 768);
  add_bert_stack(config, prefix, vocab, config.count("type_vocab_size", 2), model);
  const Tensors t = model.add("head", "head", "");
  const bool pools = head == "Model" || head == "ForPreTraining";
  if (pools) model.more(prefix).in("pooler").linear("dense", hidden, hidden, true);
  if (head == "Model") return;
  const Tensors predictions = t.in("cls").in("predictions");
  predictions.vector("bias", {vocab});
  predictions.in("transform").linear("dense", hidden, hidden, true);
  predictions.in("transform").norm("LayerNorm", hidden, Norm::Layer);
  add_decoder_of_words(predictions, "decoder", "bert.embeddings.word_embeddings.weight", vocab,
                       hidden, config.flag("tie_word_embeddings", true));
  if (head == "ForPreTraining") t.in("cls").linear("seq_relationship", hidden, 2, true);
}

void add_roberta(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const std::string prefix = head == "Model" ? "" : "roberta.";
  const std::int64_t vocab = config.count("vocab_size", 50265);
  const std::int64_t hidden = config.count("hidden_size", 768);
  add_bert_stack(config, prefix, vocab, config.count("type_vocab_size", 2), model);
  const Tensors t = model.add("head", "head", "");
  if (head == "Model") return t.in("pooler").linear("dense", hidden, hidden, true);
  const Tensors words = t.in("lm_head");
  words.vector("bias", {vocab});
  words.linear("dense", hidden, hidden, true);
  words.norm("layer_norm", hidden, Norm::Layer);
  add_decoder_of_words(words, "decoder", "roberta.embeddings.word_embeddings.weight", vocab, hidden,
                       config.flag("tie_word_embeddings", true));
}

void add_vit(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const std::string prefix = head == "Model" ? "" : "vit.";
  const Encoder e = read_encoder(config);
  add_image_embedding(model.add("embedding", "embedding", prefix).in("embeddings"),
                      read_image(config, 16), false);
  for (std::int64_t i = 0; i < e.layers; ++i) {
    add_vit_layer(model.add(fmt::format("block.{}", i), "block",
                            fmt::format("{}encoder.layer.{}.", prefix, i)),
                  e, config.flag("qkv_bias", true));
  }
  const Tensors t = model.add("head", "head", "");
  model.more(prefix).norm("layernorm", e.hidden, Norm::Layer);
  if (head != "Model") return t.linear("classifier", e.hidden, num_labels(config), true);
  t.in("pooler").linear("dense", e.hidden,
                        config.count_or("pooler_output_size", e.hidden, e.hidden), true);
}

void add_dinov2(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const std::string prefix = head == "Model" ? "" : "dinov2.";
  const Image image = read_image(config, 14);
  const std::int64_t hidden = image.hidden;
  const std::int64_t inner = config.count("mlp_ratio", 4) * hidden;
  const std::int64_t layers = config.count("num_hidden_layers", 12, kMaxBlocks);
  add_image_embedding(model.add("embedding", "embedding", prefix).in("embeddings"), image,
                      config.flag("use_mask_token", true));
  for (std::int64_t i = 0; i < layers; ++i) {
    const Tensors t = model.add(fmt::format("block.{}", i), "block",
                                fmt::format("{}encoder.layer.{}.", prefix, i));
    t.norm("norm1", hidden, Norm::Layer);
    add_self_attention(t.in("attention"), "attention", hidden, config.flag("qkv_bias", true));
    t.in("layer_scale1").vector("lambda1", {hidden});
    t.norm("norm2", hidden, Norm::Layer);
    add_dinov2_mlp(t.in("mlp"), hidden, inner, config.flag("use_swiglu_ffn", false));
    t.in("layer_scale2").vector("lambda1", {hidden});
  }
  const Tensors t = model.add("head", "head", "");
  model.more(prefix).norm("layernorm", hidden, Norm::Layer);
  if (head != "Model") t.linear("classifier", 2 * hidden, num_labels(config), true);
}

}  // namespace athanor::families
