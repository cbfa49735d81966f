// SPDX-License-Identifier: Apache-2.0
// t5 and whisper: an encoder, and a decoder that attends to it.
#include "sim/families/encoders.hpp"
#include "sim/families/pieces.hpp"

#include <fmt/format.h>

namespace athanor::families {
namespace {

struct T5Sizes {
  std::int64_t hidden = 0, inner = 0, width = 0, heads = 0, buckets = 0;
  bool gated = false;
};

void add_t5_attention(const Tensors& t, const T5Sizes& s, bool causal) {
  for (const char* name : {"q", "k", "v"}) t.linear(name, s.hidden, s.width);
  t.linear("o", s.width, s.hidden);
  t.attends(s.width, causal);
}

void add_t5_block(const Tensors& block, const T5Sizes& s, bool is_decoder, bool has_buckets) {
  const Tensors self = block.in("layer", 0);
  add_t5_attention(self.in("SelfAttention"), s, is_decoder);
  if (has_buckets) {
    self.in("SelfAttention").table("relative_attention_bias", s.buckets, s.heads);
  }
  self.norm("layer_norm", s.hidden);
  if (is_decoder) {
    add_t5_attention(block.in("layer", 1).in("EncDecAttention"), s, false);
    block.in("layer", 1).norm("layer_norm", s.hidden);
  }
  const Tensors last = block.in("layer", is_decoder ? 2 : 1);
  const Tensors mlp = last.in("DenseReluDense");
  mlp.linear(s.gated ? "wi_0" : "wi", s.hidden, s.inner);
  if (s.gated) mlp.linear("wi_1", s.hidden, s.inner);
  mlp.linear("wo", s.inner, s.hidden);
  last.norm("layer_norm", s.hidden);
}

void add_t5_stack(const char* name, std::int64_t layers, const T5Sizes& s, ModelBuilder& model) {
  const bool is_decoder = std::string_view(name) == "decoder";
  for (std::int64_t i = 0; i < layers; ++i) {
    add_t5_block(
        model.add(fmt::format("{}.{}", name, i), name, fmt::format("{}.block.{}.", name, i)), s,
        is_decoder, i == 0);
  }
  model.add(fmt::format("{}.end", name), "end", fmt::format("{}.", name))
      .norm("final_layer_norm", s.hidden);
}

T5Sizes read_t5(const ConfigReader& config) {
  T5Sizes s;
  s.hidden = config.count("d_model", 512);
  s.inner = config.count("d_ff", 2048);
  s.heads = config.count("num_heads", 8);
  s.width = s.heads * config.count("d_kv", 64);
  s.buckets = config.count("relative_attention_num_buckets", 32);
  s.gated = config.text("feed_forward_proj", "relu").starts_with("gated-");
  return s;
}

struct WhisperSizes {
  std::int64_t width = 0, inner = 0;
};

void add_whisper_attention(const Tensors& t, std::int64_t width, bool causal) {
  t.linear("k_proj", width, width);
  for (const char* name : {"v_proj", "q_proj", "out_proj"}) t.linear(name, width, width, true);
  t.attends(width, causal);
}

void add_whisper_layer(const Tensors& t, const WhisperSizes& s, bool is_decoder) {
  add_whisper_attention(t.in("self_attn"), s.width, is_decoder);
  t.norm("self_attn_layer_norm", s.width, Norm::Layer);
  if (is_decoder) {
    add_whisper_attention(t.in("encoder_attn"), s.width, false);
    t.norm("encoder_attn_layer_norm", s.width, Norm::Layer);
  }
  add_mlp(t, "fc1", "fc2", s.width, s.inner);
  t.norm("final_layer_norm", s.width, Norm::Layer);
}

void add_whisper_stack(const char* name, const std::string& prefix, std::int64_t layers,
                       const WhisperSizes& s, ModelBuilder& model) {
  for (std::int64_t i = 0; i < layers; ++i) {
    add_whisper_layer(
        model.add(fmt::format("{}.{}", name, i), name, fmt::format("{}layers.{}.", prefix, i)), s,
        std::string_view(name) == "decoder");
  }
  model.add(fmt::format("{}.end", name), "end", prefix).norm("layer_norm", s.width, Norm::Layer);
}

void add_convolution(const Tensors& t, std::int64_t in, std::int64_t out) {
  constexpr std::int64_t kKernel = 3;
  t.matrix("weight", {out, in, kKernel});
  t.vector("bias", {out});
}

}  // namespace

void add_t5(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const T5Sizes s = read_t5(config);
  const std::int64_t vocab = config.count("vocab_size", 32128);
  const std::int64_t layers = config.count("num_layers", 6, kMaxBlocks);
  model.add("embedding", "embedding", "").table("shared", vocab, s.hidden);
  add_t5_stack("encoder", layers, s, model);
  if (head == "EncoderModel") return;
  const std::int64_t decoders = config.count_or("num_decoder_layers", layers, layers);
  if (decoders > kMaxBlocks) config.reject("num_decoder_layers", "is too large", "Use fewer.");
  add_t5_stack("decoder", decoders, s, model);
  if (head == "Model") return;
  const Tensors t = model.add("head", "head", "");
  if (!config.flag("tie_word_embeddings", true)) return t.linear("lm_head", s.hidden, vocab);
  t.borrow(0, "shared.weight", vocab * s.hidden);
}

void add_whisper(const ConfigReader& config, std::string_view head, ModelBuilder& model) {
  const std::string prefix = head == "Model" ? "" : "model.";
  const std::int64_t width = config.count("d_model", 384);
  const std::int64_t vocab = config.count("vocab_size", 51865);
  const Tensors sound = model.add("encoder.embedding", "encoder.embedding", prefix + "encoder.");
  add_convolution(sound.in("conv1"), config.count("num_mel_bins", 80), width);
  add_convolution(sound.in("conv2"), width, width);
  sound.table("embed_positions", config.count("max_source_positions", 1500), width);
  add_whisper_stack("encoder", prefix + "encoder.", config.count("encoder_layers", 4, kMaxBlocks),
                    {width, config.count("encoder_ffn_dim", 1536)}, model);
  const Tensors words = model.add("embedding", "embedding", prefix + "decoder.");
  const int embedding = model.last();
  words.table("embed_tokens", vocab, width);
  words.table("embed_positions", config.count("max_target_positions", 448), width);
  add_whisper_stack("decoder", prefix + "decoder.", config.count("decoder_layers", 4, kMaxBlocks),
                    {width, config.count("decoder_ffn_dim", 1536)}, model);
  if (head == "Model") return;
  const Tensors t = model.add("head", "head", "");
  if (!config.flag("tie_word_embeddings", true)) return t.linear("proj_out", width, vocab);
  t.borrow(embedding, prefix + "decoder.embed_tokens.weight", vocab * width);
}

}  // namespace athanor::families
