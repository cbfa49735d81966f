// SPDX-License-Identifier: Apache-2.0
#include "executor/units/rotary_block.hpp"

#include "executor/layers/attention.hpp"
#include "executor/layers/fused_operators.hpp"
#include "executor/layers/rotary_positions.hpp"
#include "executor/layers/sink_attention.hpp"

namespace athanor {

LayerGroup group_of(std::initializer_list<Linear> layers) {
  LayerGroup result;
  for (const Linear& layer : layers) {
    result.weights.push_back(layer.weight);
    if (layer.bias.defined()) result.biases.push_back(layer.bias);
  }
  return result;
}

GatedMlp gated_mlp(LanguageUnit& unit, const std::string& name, std::int64_t hidden,
                   std::int64_t inner, bool bias) {
  return {unit.linear(name + "gate_proj", inner, hidden, bias),
          unit.linear(name + "up_proj", inner, hidden, bias),
          unit.linear(name + "down_proj", hidden, inner, bias)};
}

RmsNorm norm_behind_attention(LanguageUnit& unit, const LanguageModelConfig& config) {
  return unit.rms_norm("post_attention_layernorm", config.hidden_size, config);
}

bool takes_fused_attention(const torch::Tensor& x, const LanguageModelConfig& c) {
  return c.multipliers == Multipliers{} && fused::norm_available(x) &&
         fused::attention_available(x, {c.num_heads, c.num_kv_heads, c.head_dim},
                                    head_norms(c) == HeadNormKind::EachHead);
}

std::int64_t gated_bytes(const torch::Tensor& x, std::int64_t inner) {
  constexpr std::int64_t kMatrices = 6;
  return kMatrices * inner * x.size(0) * x.size(1) * x.element_size();
}

RotaryHalf::RotaryHalf(LanguageUnit& unit, const LanguageModelConfig& c, std::int64_t inner)
    : config_(c),
      inner_(inner),
      norms_(head_norms(c)),
      norm_(unit.rms_norm("input_layernorm", c.hidden_size, c)) {
  const std::int64_t query = c.num_heads * c.head_dim, key = c.num_kv_heads * c.head_dim;
  query_ = unit.linear("self_attn.q_proj", query, c.hidden_size, c.attention_bias);
  key_ = unit.linear("self_attn.k_proj", key, c.hidden_size, c.attention_bias);
  value_ = unit.linear("self_attn.v_proj", key, c.hidden_size, c.attention_bias);
  output_ = unit.linear("self_attn.o_proj", c.hidden_size, query, c.attention_output_bias);
  if (has_sinks(c.model_type)) sinks_ = unit.parameter("self_attn.sinks", {c.num_heads});
  if (norms_ == HeadNormKind::None) return;
  const bool across = norms_ == HeadNormKind::AllHeads;
  query_norm_ = unit.rms_norm("self_attn.q_norm", across ? query : c.head_dim, c);
  key_norm_ = unit.rms_norm("self_attn.k_norm", across ? key : c.head_dim, c);
}

fused::HeadShape RotaryHalf::heads() const {
  return {config_.num_heads, config_.num_kv_heads, config_.head_dim};
}

torch::Tensor RotaryHalf::add_to(const torch::Tensor& x, const Batch& batch,
                                 torch::Tensor* /*sums*/) const {
  if (takes_fused_attention(x, config_)) return fused_attention(x, batch.packing);
  return at::add(x, attention(norm_(x), batch.packing), config_.multipliers.residual);
}

torch::Tensor RotaryHalf::fused_attention(const torch::Tensor& x,
                                          const std::optional<Packing>& packing) const {
  Projected stream = norm_and_project(x, norm_, group_of({query_, key_, value_}));
  RotaryAttention attention{heads(),
                            rotary_frequencies(x.size(1), config_),
                            config_.sliding_window,
                            std::nullopt,
                            gated_bytes(x, inner_),
                            sinks_};
  if (norms_ == HeadNormKind::EachHead) {
    attention.norms = {query_norm_.weight, key_norm_.weight, query_norm_.epsilon};
  } else if (norms_ == HeadNormKind::AllHeads) {
    stream.outputs = with_norms_across(stream.outputs);
  }
  return add_projection(stream.trunk, output_, attend(attention, stream.outputs, packing));
}

torch::Tensor RotaryHalf::with_norms_across(const torch::Tensor& packed) const {
  const std::int64_t query = config_.num_heads * config_.head_dim;
  const std::int64_t key = config_.num_kv_heads * config_.head_dim;
  const Tensors parts = packed.split_with_sizes({query, key, key}, -1);
  return torch::cat({query_norm_(parts[0]), key_norm_(parts[1]), parts[2]}, -1);
}

torch::Tensor RotaryHalf::attention(const torch::Tensor& x,
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
  query = rotate(query, table), key = rotate(key, table);
  const std::int64_t window = config_.sliding_window;
  if (sinks_.defined()) {
    return output_(merge_heads(sink_attention(query, key, value, sinks_, packing, window)));
  }
  const double scale = config_.multipliers.attention;
  return output_(merge_heads(causal_attention(query, key, value, packing, window,
                                              scale > 0 ? std::optional(scale) : std::nullopt)));
}

}  // namespace athanor
