// SPDX-License-Identifier: Apache-2.0
// Dense decoders, and mamba, whose modules have names of their own.
#include "sim/families/dense.hpp"

namespace athanor::families {
namespace {

const DecoderNames kGptNames{"wte", "h", "ln_f", "lm_head"};

/// Attention of as many keys and values as queries, whose heads divide the width.
Attention even_attention(const ConfigReader& config, const char* heads_key, std::int64_t hidden,
                         std::int64_t heads) {
  return {hidden, heads, heads, config.share(heads_key, hidden, heads)};
}

/// Reads what GPT-2's descendants call n_embd, n_layer and n_head.
DecoderSizes read_gpt_sizes(const ConfigReader& config, const DecoderDefaults& defaults) {
  DecoderSizes s;
  s.vocab = config.count("vocab_size", defaults.vocab);
  const std::int64_t hidden = config.count("n_embd", defaults.hidden);
  s.layers = config.count("n_layer", defaults.layers, kMaxBlocks);
  s.attention = even_attention(config, "n_head", hidden, config.count("n_head", defaults.heads));
  s.inner = config.count_or("n_inner", 4 * hidden, 4 * hidden);
  s.tied = config.flag("tie_word_embeddings", defaults.tied);
  return s;
}

/// Block with a fused projection and two of a perceptron, as gpt_neox, bloom and falcon call them.
void add_neox_block(const Tensors& t, const char* attention, const DecoderSizes& s, bool bias) {
  add_fused_attention(t.in(attention), s.attention, "query_key_value", "dense");
  add_mlp(t.in("mlp"), "dense_h_to_4h", "dense_4h_to_h", s.hidden(), s.inner, bias);
}

/// Heads of keys and values that falcon computes.
std::int64_t falcon_kv_heads(const ConfigReader& config, std::int64_t heads) {
  if (config.flag("new_decoder_architecture", false)) {
    return config.count_or("num_kv_heads", heads, heads);
  }
  return config.flag("multi_query", true) ? 1 : heads;
}

/// Reads how many norms a block of falcon has before attention and perceptron that are parallel.
std::int64_t falcon_norms(const ConfigReader& config) {
  const bool is_new = config.flag("new_decoder_architecture", false);
  return config.optional_count("num_ln_in_parallel_attn").value_or(is_new ? 2 : 1);
}

struct MambaSizes {
  std::int64_t hidden = 0, inner = 0, state = 0, kernel = 0, rank = 0;
  bool bias = false, conv_bias = true;
};

std::int64_t mamba_rank(const ConfigReader& config, std::int64_t hidden) {
  constexpr std::int64_t kWidthPerRank = 16;
  const std::int64_t automatic = (hidden + kWidthPerRank - 1) / kWidthPerRank;
  return config.is_text("time_step_rank") ? automatic : config.count("time_step_rank", automatic);
}

MambaSizes read_mamba(const ConfigReader& config) {
  MambaSizes m;
  m.hidden = config.count("hidden_size", 768);
  m.inner = config.count("expand", 2) * m.hidden;
  m.state = config.count("state_size", 16);
  m.kernel = config.count("conv_kernel", 4);
  m.rank = mamba_rank(config, m.hidden);
  m.bias = config.flag("use_bias", false);
  m.conv_bias = config.flag("use_conv_bias", true);
  return m;
}

void add_mamba_block(const Tensors& t, const MambaSizes& m) {
  t.norm("norm", m.hidden);
  const Tensors mixer = t.in("mixer");
  mixer.vector("A_log", {m.inner, m.state});
  mixer.vector("D", {m.inner});
  mixer.matrix("conv1d.weight", {m.inner, 1, m.kernel});
  if (m.conv_bias) mixer.vector("conv1d.bias", {m.inner});
  mixer.linear("in_proj", m.hidden, 2 * m.inner, m.bias);
  mixer.linear("x_proj", m.inner, m.rank + 2 * m.state);
  mixer.linear("dt_proj", m.rank, m.inner, true);
  mixer.linear("out_proj", m.inner, m.hidden, m.bias);
}

DecoderSizes read_opt(const ConfigReader& config) {
  config.require("enable_bias", true, true);
  config.require("layer_norm_elementwise_affine", true, true);
  DecoderSizes s;
  s.vocab = config.count("vocab_size", 50272);
  const std::int64_t hidden = config.count("hidden_size", 768);
  s.layers = config.count("num_hidden_layers", 12, kMaxBlocks);
  s.attention = even_attention(config, "num_attention_heads", hidden,
                               config.count("num_attention_heads", 12));
  s.attention.bias = s.attention.out_bias = true;
  s.inner = config.count("ffn_dim", 3072);
  s.tied = config.flag("tie_word_embeddings", true);
  return s;
}

}  // namespace

Decoder bloom(const ConfigReader& config) {
  DecoderSizes s;
  s.vocab = config.count("vocab_size", 250880);
  const std::int64_t hidden = config.count("n_embed", config.count("hidden_size", 64));
  s.layers = config.count_of({"n_layer", "num_hidden_layers"}, 2, kMaxBlocks);
  s.attention = even_attention(config, "n_head", hidden,
                               config.count_of({"n_head", "num_attention_heads"}, 8));
  s.attention.bias = s.attention.out_bias = true;
  s.inner = 4 * hidden;
  s.tied = config.flag("tie_word_embeddings", true);
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_neox_block(t, "self_attention", s, true);
    add_both_norms(t, s.hidden(), Norm::Layer);
  });
  decoder.norm = Norm::Layer;
  decoder.names = {"word_embeddings", "h", "ln_f", "lm_head"};
  decoder.more_tables = [hidden](const Tensors& t) {
    t.norm("word_embeddings_layernorm", hidden, Norm::Layer);
  };
  return decoder;
}

Decoder falcon(const ConfigReader& config) {
  DecoderSizes s;
  s.vocab = config.count("vocab_size", 65024);
  const std::int64_t hidden = config.count("n_embed", config.count("hidden_size", 4544));
  const std::int64_t heads = config.count("num_attention_heads", 71);
  s.layers = config.count("num_hidden_layers", 32, kMaxBlocks);
  s.attention = even_attention(config, "num_attention_heads", hidden, heads);
  s.attention.kv_heads = falcon_kv_heads(config, heads);
  const bool bias = config.flag("bias", false);
  s.attention.bias = s.attention.out_bias = bias;
  s.inner = config.count_or("ffn_hidden_size", 4 * hidden, 4 * hidden);
  s.tied = config.flag("tie_word_embeddings", true);
  const bool parallel = config.flag("parallel_attn", true);
  const bool two_norms = falcon_norms(config) == 2;
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_neox_block(t, "self_attention", s, bias);
    if (!parallel) return add_both_norms(t, s.hidden(), Norm::Layer);
    if (!two_norms) return t.norm(kInputNorm, s.hidden(), Norm::Layer);
    t.norm("ln_attn", s.hidden(), Norm::Layer);
    t.norm("ln_mlp", s.hidden(), Norm::Layer);
  });
  decoder.norm = Norm::Layer;
  decoder.names = {"word_embeddings", "h", "ln_f", "lm_head"};
  return decoder;
}

Decoder gpt_neox(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {50432, 6144, 24576, 44, 64, 0, 0, false});
  s.attention = even_attention(config, "num_attention_heads", s.hidden(), s.attention.heads);
  s.attention.bias = s.attention.out_bias = config.flag("attention_bias", true);
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_neox_block(t, "attention", s, true);
    add_both_norms(t, s.hidden(), Norm::Layer);
  });
  decoder.norm = Norm::Layer;
  decoder.names = {"embed_in", "layers", "final_layer_norm", "embed_out"};
  return decoder;
}

Decoder gptj(const ConfigReader& config) {
  const DecoderSizes s = read_gpt_sizes(config, {50400, 4096, 0, 28, 16, 0, 0, false});
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    t.norm("ln_1", s.hidden(), Norm::Layer);
    add_attention(t.in("attn"), s.attention, "out_proj");
    add_mlp(t.in("mlp"), "fc_in", "fc_out", s.hidden(), s.inner);
  });
  decoder.norm = Norm::Layer;
  decoder.head_bias = true;
  decoder.names = kGptNames;
  return decoder;
}

Decoder gpt_neo(const ConfigReader& config) {
  DecoderSizes s;
  s.vocab = config.count("vocab_size", 50257);
  const std::int64_t hidden = config.count("hidden_size", 2048);
  s.layers = config.count_of({"num_layers", "num_hidden_layers"}, 24, kMaxBlocks);
  s.attention = even_attention(config, "num_heads", hidden,
                               config.count_of({"num_heads", "num_attention_heads"}, 16));
  s.attention.out_bias = true;
  s.inner = config.count_or("intermediate_size", 4 * hidden, 4 * hidden);
  s.tied = config.flag("tie_word_embeddings", true);
  const std::int64_t positions = config.count("max_position_embeddings", 2048);
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    t.norm("ln_1", hidden, Norm::Layer);
    add_attention(t.in("attn").in("attention"), s.attention, "out_proj");
    t.norm("ln_2", hidden, Norm::Layer);
    add_mlp(t.in("mlp"), "c_fc", "c_proj", hidden, s.inner);
  });
  decoder.norm = Norm::Layer;
  decoder.names = kGptNames;
  decoder.more_tables = [=](const Tensors& t) { t.table("wpe", positions, hidden); };
  return decoder;
}

Decoder gpt_bigcode(const ConfigReader& config) {
  config.require("add_cross_attention", false, false);
  DecoderSizes s = read_gpt_sizes(config, {50257, 768, 0, 12, 12, 0, 0, true});
  if (config.flag("multi_query", true)) s.attention.kv_heads = 1;
  s.attention.bias = s.attention.out_bias = true;
  const std::int64_t positions = config.count("n_positions", 1024);
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    t.norm("ln_1", s.hidden(), Norm::Layer);
    add_fused_attention(t.in("attn"), s.attention, "c_attn", "c_proj");
    t.norm("ln_2", s.hidden(), Norm::Layer);
    add_mlp(t.in("mlp"), "c_fc", "c_proj", s.hidden(), s.inner);
  });
  decoder.norm = Norm::Layer;
  decoder.names = kGptNames;
  decoder.more_tables = [=](const Tensors& t) { t.table("wpe", positions, s.hidden()); };
  return decoder;
}

Decoder mamba(const ConfigReader& config) {
  const MambaSizes m = read_mamba(config);
  Decoder decoder;
  decoder.vocab = config.count("vocab_size", 50280);
  decoder.width = m.hidden;
  decoder.layers = config.count("num_hidden_layers", 32, kMaxBlocks);
  decoder.tied = config.flag("tie_word_embeddings", true);
  decoder.block = [=](const Tensors& t, std::int64_t) { add_mamba_block(t, m); };
  decoder.names = {"embeddings", "layers", "norm_f", "lm_head"};
  return decoder;
}

Decoder opt(const ConfigReader& config) {
  constexpr std::int64_t kPositionOffset = 2;
  const DecoderSizes s = read_opt(config);
  const std::int64_t rows = config.count("max_position_embeddings", 2048) + kPositionOffset;
  const std::int64_t width = config.count("word_embed_proj_dim", 768);
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_attention(t.in("self_attn"), s.attention, "out_proj");
    t.norm("self_attn_layer_norm", s.hidden(), Norm::Layer);
    add_mlp(t, "fc1", "fc2", s.hidden(), s.inner);
    t.norm("final_layer_norm", s.hidden(), Norm::Layer);
  });
  const bool has_norm =
      config.flag("do_layer_norm_before", true) && !config.flag("_remove_final_layer_norm", false);
  decoder.norm = has_norm ? Norm::Layer : Norm::None;
  decoder.table_width = width;
  decoder.names = {"decoder.embed_tokens", "decoder.layers", "decoder.final_layer_norm", "lm_head"};
  const bool projects = width != s.hidden();
  decoder.more_tables = [=](const Tensors& t) {
    t.table("decoder.embed_positions", rows, s.hidden());
    if (projects) t.linear("decoder.project_in", width, s.hidden());
  };
  decoder.more_of_head = [=](const Tensors& t) {
    if (projects) t.linear("decoder.project_out", s.hidden(), width);
  };
  return decoder;
}

}  // namespace athanor::families
