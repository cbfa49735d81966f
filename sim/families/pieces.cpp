// SPDX-License-Identifier: Apache-2.0
#include "sim/families/pieces.hpp"

#include <fmt/format.h>

namespace athanor {

void add_attention(const Tensors& t, const Attention& a, const char* out) {
  t.linear("q_proj", a.hidden, a.q_width(), a.bias);
  t.linear("k_proj", a.hidden, a.kv_width(), a.bias);
  t.linear("v_proj", a.hidden, a.kv_width(), a.bias);
  t.linear(out, a.q_width(), a.hidden, a.out_bias);
  t.attends(a.q_width());
}

void add_fused_attention(const Tensors& t, const Attention& a, const char* qkv, const char* out) {
  t.linear(qkv, a.hidden, a.q_width() + 2 * a.kv_width(), a.bias);
  t.linear(out, a.q_width(), a.hidden, a.out_bias);
  t.attends(a.q_width());
}

void add_head_norms(const Tensors& t, const Attention& a) {
  t.norm("q_norm", a.head_dim);
  t.norm("k_norm", a.head_dim);
}

void add_both_norms(const Tensors& t, std::int64_t hidden, Norm kind) {
  t.norm(kInputNorm, hidden, kind);
  t.norm(kPostAttentionNorm, hidden, kind);
}

void add_gated_mlp(const Tensors& t, std::int64_t hidden, std::int64_t inner, bool bias) {
  t.linear("gate_proj", hidden, inner, bias);
  t.linear("up_proj", hidden, inner, bias);
  t.linear("down_proj", inner, hidden, bias);
}

void add_fused_gated_mlp(const Tensors& t, std::int64_t hidden, std::int64_t inner) {
  t.linear("gate_up_proj", hidden, 2 * inner);
  t.linear("down_proj", inner, hidden);
}

void add_mlp(const Tensors& t, const char* first, const char* second, std::int64_t hidden,
             std::int64_t inner, bool bias) {
  t.linear(first, hidden, inner, bias);
  t.linear(second, inner, hidden, bias);
}

Experts read_experts(const ConfigReader& config, const char* number_key, const char* inner_key,
                     const Experts& defaults) {
  Experts experts;
  experts.number = config.count(number_key, defaults.number, kMaxExperts);
  experts.per_token = config.count_or("num_experts_per_tok", defaults.per_token, experts.number);
  experts.inner = config.count(inner_key, defaults.inner);
  if (experts.per_token > experts.number) {
    config.reject("num_experts_per_tok",
                  fmt::format("{} of {} experts", experts.per_token, experts.number),
                  "A token uses a part of them.");
  }
  return experts;
}

void add_gated_experts(const Tensors& t, std::int64_t hidden, const Experts& experts) {
  const Tensors used = t.used(experts.share());
  for (std::int64_t i = 0; i < experts.number; ++i) {
    add_gated_mlp(used.in("experts", i), hidden, experts.inner);
  }
}

void add_fused_experts(const Tensors& t, std::int64_t hidden, const Experts& experts) {
  const Tensors used = t.in("experts").used(experts.share());
  used.matrix("gate_up_proj", {experts.number, hidden, 2 * experts.inner});
  used.matrix("down_proj", {experts.number, experts.inner, hidden});
}

}  // namespace athanor
