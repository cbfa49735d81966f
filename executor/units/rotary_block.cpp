// SPDX-License-Identifier: Apache-2.0
#include "executor/units/rotary_block.hpp"

#include "executor/layers/attention.hpp"
#include "executor/layers/fused_operators.hpp"
#include "executor/layers/rotary_positions.hpp"

#include <fmt/format.h>

namespace athanor {

LayerGroup group_of(std::initializer_list<Linear> layers) {
  LayerGroup result;
  for (const Linear& layer : layers) {
    result.weights.push_back(layer.weight);
    if (layer.bias.defined()) result.biases.push_back(layer.bias);
  }
  return result;
}

RotaryBlock::RotaryBlock(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer,
                         DataType dtype)
    : LanguageUnit(unit, fmt::format("model.layers.{}.", layer), dtype),
      config_(c),
      norms_(head_norms(c)),
      attention_norm_(rms_norm("input_layernorm", c.hidden_size, c)),
      mlp_norm_(rms_norm("post_attention_layernorm", c.hidden_size, c)),
      query_(from_hidden("self_attn.q_proj", c.num_heads * c.head_dim, c.attention_bias)),
      key_(from_hidden("self_attn.k_proj", c.num_kv_heads * c.head_dim, c.attention_bias)),
      value_(from_hidden("self_attn.v_proj", c.num_kv_heads * c.head_dim, c.attention_bias)),
      attention_output_(linear("self_attn.o_proj", c.hidden_size, c.num_heads * c.head_dim,
                               c.attention_output_bias)) {
  if (norms_ == HeadNormKind::None) return;
  const bool across = norms_ == HeadNormKind::AllHeads;
  query_norm_ = rms_norm("self_attn.q_norm", across ? c.num_heads * c.head_dim : c.head_dim, c);
  key_norm_ = rms_norm("self_attn.k_norm", across ? c.num_kv_heads * c.head_dim : c.head_dim, c);
}

Linear RotaryBlock::from_hidden(const std::string& name, std::int64_t out, bool bias) {
  return linear(name, out, config_.hidden_size, bias);
}

GatedMlp RotaryBlock::gated_mlp(const std::string& name, std::int64_t inner, bool bias) {
  return {from_hidden(name + "gate_proj", inner, bias), from_hidden(name + "up_proj", inner, bias),
          linear(name + "down_proj", config_.hidden_size, inner, bias)};
}

fused::HeadShape RotaryBlock::heads() const {
  return {config_.num_heads, config_.num_kv_heads, config_.head_dim};
}

bool RotaryBlock::takes_fused_attention(const torch::Tensor& x) const {
  return fused::norm_available(x) &&
         fused::attention_available(x, heads(), norms_ == HeadNormKind::EachHead);
}

torch::Tensor RotaryBlock::add_attention(const torch::Tensor& x,
                                         const std::optional<Packing>& packing,
                                         std::int64_t bytes_behind) const {
  if (takes_fused_attention(x)) return fused_attention(x, packing, bytes_behind);
  return x + attention(attention_norm_(x), packing);
}

torch::Tensor RotaryBlock::fused_attention(const torch::Tensor& x,
                                           const std::optional<Packing>& packing,
                                           std::int64_t bytes_behind) const {
  Projected stream = norm_and_project(x, attention_norm_, group_of({query_, key_, value_}));
  RotaryAttention attention{heads(), rotary_frequencies(x.size(1), config_), config_.sliding_window,
                            std::nullopt, bytes_behind};
  if (norms_ == HeadNormKind::EachHead) {
    attention.norms = {query_norm_.weight, key_norm_.weight, query_norm_.epsilon};
  } else if (norms_ == HeadNormKind::AllHeads) {
    stream.outputs = with_norms_across(stream.outputs);
  }
  return add_projection(stream.trunk, attention_output_,
                        attend(attention, stream.outputs, packing));
}

torch::Tensor RotaryBlock::with_norms_across(const torch::Tensor& packed) const {
  const std::int64_t query = config_.num_heads * config_.head_dim;
  const std::int64_t key = config_.num_kv_heads * config_.head_dim;
  const Tensors parts = packed.split_with_sizes({query, key, key}, -1);
  return torch::cat({query_norm_(parts[0]), key_norm_(parts[1]), parts[2]}, -1);
}

torch::Tensor RotaryBlock::attention(const torch::Tensor& x,
                                     const std::optional<Packing>& packing) const {
  const bool across = norms_ == HeadNormKind::AllHeads;
  const bool each = norms_ == HeadNormKind::EachHead;
  torch::Tensor query = query_(x), key = key_(x);
  if (across) query = query_norm_(query), key = key_norm_(key);
  query = split_heads(query, config_.num_heads);
  key = split_heads(key, config_.num_kv_heads);
  if (each) query = query_norm_(query), key = key_norm_(key);
  const torch::Tensor value = split_heads(value_(x), config_.num_kv_heads);
  // Every unit computes the table again: it is small beside the activations, and a unit needs no
  // state this way.
  const RotaryTable table =
      restarted(rotary_table(x.size(1), rotary_frequencies(x.size(1), config_), x), packing);
  return attention_output_(merge_heads(causal_attention(rotate(query, table), rotate(key, table),
                                                        value, packing, config_.sliding_window)));
}

}  // namespace athanor
