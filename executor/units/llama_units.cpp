// SPDX-License-Identifier: Apache-2.0
// The llama family (Touvron et al. 2023): RMSNorm, rotary positions, grouped-query attention and a
// gated MLP. mistral adds a sliding window, qwen2 biases of q, k and v, qwen3 norms of each head's
// q and k.
#include "executor/layers/attention.hpp"
#include "executor/layers/fused_operators.hpp"
#include "executor/layers/llama_layers.hpp"
#include "executor/layers/rotary_positions.hpp"
#include "executor/units/language_family.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

class LlamaBlock final : public LanguageUnit {
 public:
  LlamaBlock(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : LanguageUnit(unit, fmt::format("model.layers.{}.", layer), dtype),
        config_(c),
        attention_norm_(rms_norm("input_layernorm", c.hidden_size, c)),
        mlp_norm_(rms_norm("post_attention_layernorm", c.hidden_size, c)),
        query_(from_hidden("self_attn.q_proj", c.num_heads * c.head_dim, c.attention_bias)),
        key_(from_hidden("self_attn.k_proj", c.num_kv_heads * c.head_dim, c.attention_bias)),
        value_(from_hidden("self_attn.v_proj", c.num_kv_heads * c.head_dim, c.attention_bias)),
        attention_output_(linear("self_attn.o_proj", c.hidden_size, c.num_heads * c.head_dim,
                                 c.attention_output_bias)),
        gate_(from_hidden("mlp.gate_proj", c.intermediate_size, c.mlp_bias)),
        up_(from_hidden("mlp.up_proj", c.intermediate_size, c.mlp_bias)),
        down_(linear("mlp.down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias)) {
    if (c.model_type == "qwen3") {
      query_norm_ = rms_norm("self_attn.q_norm", c.head_dim, c);
      key_norm_ = rms_norm("self_attn.k_norm", c.head_dim, c);
    }
  }

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    if (takes_fused(activation)) return fused_forward(activation, batch.packing);
    const torch::Tensor middle = activation + attention(attention_norm_(activation), batch.packing);
    return middle + mlp(mlp_norm_(middle));
  }

 private:
  Linear from_hidden(const std::string& name, std::int64_t out, bool bias) {
    return linear(name, out, config_.hidden_size, bias);
  }

  [[nodiscard]] bool has_head_norms() const { return query_norm_.weight.defined(); }
  [[nodiscard]] fused::HeadShape heads() const {
    return {config_.num_heads, config_.num_kv_heads, config_.head_dim};
  }

  [[nodiscard]] bool takes_fused(const torch::Tensor& x) const {
    return fused::norm_available(x) && fused::available(down_.weight) &&
           fused::attention_available(x, heads(), has_head_norms());
  }

  [[nodiscard]] torch::Tensor fused_forward(const torch::Tensor& x,
                                            const std::optional<Packing>& packing) const {
    Projected stream = norm_and_project(x, attention_norm_, group({query_, key_, value_}));
    const torch::Tensor middle = add_projection(
        stream.trunk, attention_output_, attend(rotary_attention(x), stream.outputs, packing));
    stream = norm_and_project(middle, mlp_norm_, group({gate_, up_}));
    return add_gated_projection(stream.trunk, down_, stream.outputs, config_.activation);
  }

  [[nodiscard]] RotaryAttention rotary_attention(const torch::Tensor& x) const {
    RotaryAttention attention{heads(), rotary_frequencies(x.size(1), config_),
                              config_.sliding_window, std::nullopt, gated_bytes(x)};
    if (has_head_norms()) {
      attention.norms = {query_norm_.weight, key_norm_.weight, query_norm_.epsilon};
    }
    return attention;
  }

  /// Bytes of gate, up and their product with the gradients of all three. Backward holds them at
  /// once and has freed them when it comes to attention, whose workspace takes their place.
  [[nodiscard]] std::int64_t gated_bytes(const torch::Tensor& x) const {
    constexpr std::int64_t kMatrices = 6;
    return kMatrices * config_.intermediate_size * x.size(0) * x.size(1) * x.element_size();
  }

  static LayerGroup group(std::initializer_list<Linear> layers) {
    LayerGroup result;
    for (const Linear& layer : layers) {
      result.weights.push_back(layer.weight);
      if (layer.bias.defined()) result.biases.push_back(layer.bias);
    }
    return result;
  }

  torch::Tensor attention(const torch::Tensor& x, const std::optional<Packing>& packing) const {
    torch::Tensor query = split_heads(query_(x), config_.num_heads);
    torch::Tensor key = split_heads(key_(x), config_.num_kv_heads);
    const torch::Tensor value = split_heads(value_(x), config_.num_kv_heads);
    if (has_head_norms()) {
      query = query_norm_(query);
      key = key_norm_(key);
    }
    // Every unit computes the table again: it is small beside the activations, and a unit needs no
    // state this way.
    const RotaryTable table =
        restarted(rotary_table(x.size(1), rotary_frequencies(x.size(1), config_), x), packing);
    return attention_output_(merge_heads(causal_attention(rotate(query, table), rotate(key, table),
                                                          value, packing, config_.sliding_window)));
  }

  torch::Tensor mlp(const torch::Tensor& x) const {
    return down_(activate(gate_(x), config_.activation) * up_(x));
  }

  LanguageModelConfig config_;
  RmsNorm attention_norm_, mlp_norm_, query_norm_, key_norm_;
  Linear query_, key_, value_, attention_output_, gate_, up_, down_;
};

}  // namespace

const LanguageFamily& llama_family() {
  static const LanguageFamily family{.tokens = "model.embed_tokens.weight",
                                     .positions = "",
                                     .final_norm = "model.norm",
                                     .norm = LanguageFamily::Norm::RmsNorm,
                                     .make_block = &make_block<LlamaBlock>};
  return family;
}

}  // namespace athanor
