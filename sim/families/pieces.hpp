// SPDX-License-Identifier: Apache-2.0
// Pieces of which many families consist: attention, multilayer perceptrons, experts.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/tensors.hpp"

#include <cstdint>

namespace athanor {

/// Attention of grouped queries. Each head is `head_dim` wide.
struct Attention {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool bias = false;      ///< bias of queries, keys and values
  bool out_bias = false;  ///< bias of the output
  [[nodiscard]] std::int64_t q_width() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_dim; }
};

/// q_proj, k_proj, v_proj and the output projection `out`, and its scores.
void add_attention(const Tensors& t, const Attention& a, const char* out = "o_proj");
/// One projection `qkv` of queries, keys and values, and the output projection `out`.
void add_fused_attention(const Tensors& t, const Attention& a, const char* qkv, const char* out);
/// Norms of queries and keys, each over one head.
void add_head_norms(const Tensors& t, const Attention& a);

inline constexpr const char* kInputNorm = "input_layernorm";
inline constexpr const char* kPostAttentionNorm = "post_attention_layernorm";
/// Norms before attention and before the perceptron, as llama calls them.
void add_both_norms(const Tensors& t, std::int64_t hidden, Norm kind = Norm::Rms);

/// gate_proj, up_proj and down_proj.
void add_gated_mlp(const Tensors& t, std::int64_t hidden, std::int64_t inner, bool bias = false);
/// gate_up_proj, both in one, and down_proj.
void add_fused_gated_mlp(const Tensors& t, std::int64_t hidden, std::int64_t inner);
/// Two projections, called `first` and `second`.
void add_mlp(const Tensors& t, const char* first, const char* second, std::int64_t hidden,
             std::int64_t inner, bool bias = true);

/// Experts of which a token uses some.
struct Experts {
  std::int64_t number = 0, per_token = 0, inner = 0;
  [[nodiscard]] double share() const {
    return static_cast<double>(per_token) / static_cast<double>(number);
  }
};

/// Reads experts; `defaults` are transformers'.
[[nodiscard]] Experts read_experts(const ConfigReader& config, const char* number_key,
                                   const char* inner_key, const Experts& defaults);
/// Gated perceptrons, one module for each expert.
void add_gated_experts(const Tensors& t, std::int64_t hidden, const Experts& experts);
/// Gated perceptrons, all experts in tensors [number, in, out].
void add_fused_experts(const Tensors& t, std::int64_t hidden, const Experts& experts);

}  // namespace athanor
