// SPDX-License-Identifier: Apache-2.0
// DeepSeek's mixtures: attention through latent vectors, and experts that all tokens share.
#include "sim/families/mixtures.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor::families {
namespace {

/// Multi-head latent attention.
struct Latent {
  std::int64_t hidden = 0, heads = 0, q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0,
               value_dim = 0;  // 0 q_rank: queries come straight from the hidden state
  bool bias = false;
  [[nodiscard]] std::int64_t q_width() const { return heads * (nope_dim + rope_dim); }
};

/// Widths where a config.json leaves them out.
struct LatentDefaults {
  std::int64_t q_rank = 1536, nope_dim = 128, value_dim = 128;
};

Latent read_latent(const ConfigReader& config, const DecoderSizes& s,
                   const LatentDefaults& defaults) {
  Latent l;
  l.hidden = s.hidden();
  l.heads = s.attention.heads;
  l.q_rank = config.count_or("q_lora_rank", defaults.q_rank, 0);
  l.kv_rank = config.count("kv_lora_rank", 512);
  l.nope_dim = config.count("qk_nope_head_dim", defaults.nope_dim);
  l.rope_dim = config.count("qk_rope_head_dim", 64);
  l.value_dim = config.count("v_head_dim", defaults.value_dim);
  l.bias = config.flag("attention_bias", false);
  return l;
}

void add_queries(const Tensors& t, const Latent& l) {
  if (l.q_rank == 0) return t.linear("q_proj", l.hidden, l.q_width());
  t.linear("q_a_proj", l.hidden, l.q_rank, l.bias);
  t.norm("q_a_layernorm", l.q_rank);
  t.linear("q_b_proj", l.q_rank, l.q_width());
}

void add_latent_attention(const Tensors& t, const Latent& l) {
  add_queries(t, l);
  t.linear("kv_a_proj_with_mqa", l.hidden, l.kv_rank + l.rope_dim, l.bias);
  t.norm("kv_a_layernorm", l.kv_rank);
  t.linear("kv_b_proj", l.kv_rank, l.heads * (l.nope_dim + l.value_dim));
  t.linear("o_proj", l.heads * l.value_dim, l.hidden, l.bias);
  t.attends(l.q_width() / 2 + l.heads * l.value_dim / 2);
}

struct Mixture {
  Experts experts;
  std::int64_t shared = 0;  ///< inner width of the experts that all tokens use; 0: none
  std::int64_t dense_blocks = 0;
};

Mixture read_mixture(const ConfigReader& config, const Experts& experts, std::int64_t shared,
                     std::int64_t dense_blocks) {
  Mixture m;
  m.experts = read_experts(config, "n_routed_experts", "moe_intermediate_size", experts);
  m.shared = config.has("n_shared_experts") ? config.count("n_shared_experts", shared) : shared;
  m.shared *= m.experts.inner;
  m.dense_blocks = config.optional_count("first_k_dense_replace").value_or(dense_blocks);
  return m;
}

Decoder deepseek(const ConfigReader& config, const DecoderSizes& s, const Mixture& m,
                 const LatentDefaults& defaults = {}) {
  config.require("mlp_bias", false, false);
  const Latent latent = read_latent(config, s, defaults);
  return decoder_of(s, [=](const Tensors& t, std::int64_t index) {
    add_latent_attention(t.in("self_attn"), latent);
    add_both_norms(t, s.hidden());
    const Tensors mlp = t.in("mlp");
    if (index < m.dense_blocks) return add_gated_mlp(mlp, s.hidden(), s.inner);
    mlp.linear("gate", s.hidden(), m.experts.number);
    add_gated_experts(mlp, s.hidden(), m.experts);
    add_gated_mlp(mlp.in("shared_experts"), s.hidden(), m.shared);
  });
}

/// Adds to each block what chooses the tokens that it attends to.
Decoder with_indexers(const ConfigReader& config, Decoder decoder, std::int64_t heads,
                      std::int64_t query_rank) {
  const std::int64_t width = config.count("index_head_dim", 128);
  const std::int64_t rank = config.count("q_lora_rank", query_rank);
  const std::int64_t index_heads = config.count("index_n_heads", heads);
  decoder.block = [=, hidden = decoder.width, block = std::move(decoder.block)](
                      const Tensors& t, std::int64_t index) {
    block(t, index);
    const Tensors indexer = t.in("self_attn").in("indexer");
    indexer.linear("wq_b", rank, index_heads * width);
    indexer.linear("wk", hidden, width);
    indexer.norm("k_norm", width, Norm::Layer);
    indexer.linear("weights_proj", hidden, index_heads);
  };
  return decoder;
}

}  // namespace

Decoder deepseek_v2(const ConfigReader& config) {
  return deepseek(config, read_sizes(config, {32000, 4096, 11008, 32, 32, 0, 64, false}),
                  read_mixture(config, {64, 64, 1407}, 2, 0));
}

Decoder deepseek_v32(const ConfigReader& config) {
  return with_indexers(config, deepseek_v3(config), 64, 1536);
}

Decoder glm_moe_dsa(const ConfigReader& config) {
  for (const std::string& type : config.texts("indexer_types")) {
    if (type == "full") continue;
    config.reject("indexer_types", fmt::format("the sizes with '{}' are not known", type),
                  "Only full can be used.");
  }
  const DecoderSizes s = read_sizes(config, {154880, 6144, 12288, 78, 64, 64, 64, false});
  return with_indexers(config,
                       deepseek(config, s, read_mixture(config, {256, 8, 2048}, 1, 3),
                                {.q_rank = 2048, .nope_dim = 192, .value_dim = 256}),
                       32, 2048);
}

Decoder deepseek_v3(const ConfigReader& config) {
  return deepseek(config, read_sizes(config, {129280, 7168, 18432, 61, 128, 128, 64, false}),
                  read_mixture(config, {256, 8, 2048}, 1, 3));
}

}  // namespace athanor::families
