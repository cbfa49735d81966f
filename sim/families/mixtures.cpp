// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts with ordinary attention.
#include "sim/families/mixtures.hpp"

#include "sim/families/gated_delta.hpp"

#include <algorithm>

namespace athanor::families {
namespace {

void set_biases(DecoderSizes& s, bool bias) { s.attention.bias = s.attention.out_bias = bias; }

/// Router and experts as mixtral calls them.
void add_mixtral_experts(const Tensors& t, std::int64_t hidden, const Experts& experts) {
  const Tensors mixture = t.in("block_sparse_moe");
  mixture.linear("gate", hidden, experts.number);
  for (std::int64_t i = 0; i < experts.number; ++i) {
    const Tensors expert = mixture.used(experts.share()).in("experts", i);
    expert.linear("w1", hidden, experts.inner);
    expert.linear("w2", experts.inner, hidden);
    expert.linear("w3", hidden, experts.inner);
  }
}

Decoder mixtral_like(const DecoderSizes& s, const Experts& experts, Norm norm) {
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_attention(t.in("self_attn"), s.attention);
    add_mixtral_experts(t, s.hidden(), experts);
    add_both_norms(t, s.hidden(), norm);
  });
  decoder.norm = norm;
  return decoder;
}

/// Which blocks of the qwen families have experts.
class SparseBlocks {
 public:
  explicit SparseBlocks(const ConfigReader& config)
      : step_(config.count("decoder_sparse_step", 1)),
        dense_(config.counts("mlp_only_layers", {})) {}
  [[nodiscard]] bool contain(std::int64_t block) const {
    return std::ranges::find(dense_, block) == dense_.end() && (block + 1) % step_ == 0;
  }

 private:
  std::int64_t step_;
  std::vector<std::int64_t> dense_;
};

/// Perceptron of a block of the qwen families. `shared`: inner width of the expert that all use; 0
/// where there is none.
AddBlock qwen_mlp(const ConfigReader& config, const DecoderSizes& s, const Experts& experts,
                  std::int64_t shared) {
  return [=, sparse = SparseBlocks(config)](const Tensors& block, std::int64_t index) {
    const Tensors t = block.in("mlp");
    if (!sparse.contain(index)) return add_gated_mlp(t, s.hidden(), s.inner);
    t.linear("gate", s.hidden(), experts.number);
    add_gated_experts(t, s.hidden(), experts);
    if (shared == 0) return;
    add_gated_mlp(t.in("shared_expert"), s.hidden(), shared);
    t.linear("shared_expert_gate", s.hidden(), 1);
  };
}

/// Blocks of llama4 that have experts.
std::vector<std::int64_t> llama4_sparse_blocks(const ConfigReader& config, std::int64_t layers) {
  const std::int64_t step = config.count("interleave_moe_layer_step", 1);
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = step - 1; i < layers; i += step) blocks.push_back(i);
  return config.counts("moe_layers", blocks);
}

void add_dbrx_block(const Tensors& t, const Attention& a, const Experts& experts) {
  const Tensors attention = t.in("norm_attn_norm");
  attention.norm("norm_1", a.hidden);
  add_fused_attention(attention.in("attn"), a, "Wqkv", "out_proj");
  attention.norm("norm_2", a.hidden);
  t.in("ffn").in("router").linear("layer", a.hidden, experts.number);
  const Tensors mixture = t.in("ffn").in("experts").in("mlp").used(experts.share());
  for (const char* name : {"w1", "v1", "w2"}) {
    mixture.matrix(name, {experts.number * experts.inner, a.hidden});
  }
}

}  // namespace

Decoder phimoe(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {32064, 4096, 6400, 32, 32, 8, 0, false});
  set_biases(s, config.flag("attention_bias", false));
  Decoder decoder =
      mixtral_like(s, read_experts(config, "num_local_experts", "intermediate_size", {16, 2, 6400}),
                   Norm::Layer);
  decoder.head_bias = config.flag("lm_head_bias", false);
  return decoder;
}

Decoder minimax_m2(const ConfigReader& config) {
  const DecoderSizes s = read_sizes(config, {200064, 3072, 1536, 62, 48, 8, 128, false});
  const Experts experts =
      read_experts(config, "num_local_experts", "intermediate_size", {256, 8, 1536});
  const bool norms = config.flag("use_qk_norm", true);
  Decoder decoder = mixtral_like(s, experts, Norm::Rms);
  decoder.block = [=, block = decoder.block](const Tensors& t, std::int64_t index) {
    block(t, index);
    if (!norms) return;
    t.in("self_attn").norm("q_norm", s.attention.q_width());
    t.in("self_attn").norm("k_norm", s.attention.kv_width());
  };
  return decoder;
}

Decoder qwen3_vl_moe_text(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {151936, 2048, 5632, 24, 16, 16, 128, false});
  set_biases(s, config.flag("attention_bias", false));
  const Experts experts =
      read_experts(config, "num_experts", "moe_intermediate_size", {60, 4, 1408});
  return decoder_of(s, [=, sparse = SparseBlocks(config)](const Tensors& t, std::int64_t index) {
    add_attention(t.in("self_attn"), s.attention);
    add_head_norms(t.in("self_attn"), s.attention);
    add_both_norms(t, s.hidden());
    if (!sparse.contain(index)) return add_gated_mlp(t.in("mlp"), s.hidden(), s.inner);
    t.in("mlp").linear("gate", s.hidden(), experts.number);
    add_fused_experts(t.in("mlp"), s.hidden(), experts);
  });
}

Decoder qwen3_next(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {151936, 2048, 5632, 48, 16, 2, 256, false});
  set_biases(s, config.flag("attention_bias", false));
  const Experts experts =
      read_experts(config, "num_experts", "moe_intermediate_size", {512, 10, 512});
  const AddBlock mlp =
      qwen_mlp(config, s, experts, config.count("shared_expert_intermediate_size", 512));
  return delta_hybrid(config, s, DeltaInputs::Grouped, mlp);
}

Decoder llama4_text(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {202048, 5120, 8192, 48, 40, 8, 128, false});
  set_biases(s, config.flag("attention_bias", false));
  const Experts experts =
      read_experts(config, "num_local_experts", "intermediate_size", {16, 1, 8192});
  const std::int64_t dense = config.count("intermediate_size_mlp", 16384);
  return decoder_of(s, [=, sparse = llama4_sparse_blocks(config, s.layers)](const Tensors& t,
                                                                            std::int64_t index) {
    add_attention(t.in("self_attn"), s.attention);
    add_both_norms(t, s.hidden());
    const Tensors feed_forward = t.in("feed_forward");
    if (std::ranges::find(sparse, index) == sparse.end()) {
      return add_gated_mlp(feed_forward, s.hidden(), dense);
    }
    feed_forward.linear("router", s.hidden(), experts.number);
    add_fused_experts(feed_forward, s.hidden(), experts);
    add_gated_mlp(feed_forward.in("shared_expert"), s.hidden(), experts.inner);
  });
}

Decoder dbrx(const ConfigReader& config) {
  const ConfigReader ffn = config.object("ffn_config");
  const std::int64_t hidden = config.count("d_model", 2048);
  const std::int64_t heads = config.count("n_heads", 16);
  const Attention a{hidden, heads, config.object("attn_config").count("kv_n_heads", 1),
                    config.share("n_heads", hidden, heads)};
  const std::int64_t number = ffn.count("moe_num_experts", 4, kMaxExperts);
  const Experts experts{number, std::min(number, ffn.count("moe_top_k", 1)),
                        ffn.count("ffn_hidden_size", 3584)};
  Decoder decoder;
  decoder.vocab = config.count("vocab_size", 32000);
  decoder.width = hidden;
  decoder.layers = config.count("n_layers", 24, kMaxBlocks);
  decoder.norm = Norm::LayerWithoutBias;
  decoder.block = [=](const Tensors& t, std::int64_t) { add_dbrx_block(t, a, experts); };
  decoder.names = {"wte", "blocks", "norm_f", "lm_head"};
  return decoder;
}

}  // namespace athanor::families
