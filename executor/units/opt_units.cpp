// SPDX-License-Identifier: Apache-2.0
// OPT (Zhang et al. 2022): learned positions whose table starts at row 2, pre-norm, ReLU.
#include "executor/layers/attention.hpp"
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_family.hpp"

namespace athanor {

namespace {

/// Row of the position table that holds position 0. The rows before it belong to padding in the
/// original vocabulary.
constexpr std::int64_t kFirstPosition = 2;

class OptAttention final : public LinkedAttention {
 public:
  OptAttention(LanguageUnit& unit, const LanguageModelConfig& c)
      : LinkedAttention(unit.layer_norm("self_attn_layer_norm", c),
                        square(unit, c, "self_attn.out_proj", c.attention_output_bias)),
        heads_(c.num_heads),
        query_(square(unit, c, "self_attn.q_proj", c.attention_bias)),
        key_(square(unit, c, "self_attn.k_proj", c.attention_bias)),
        value_(square(unit, c, "self_attn.v_proj", c.attention_bias)) {}

 private:
  static Linear square(LanguageUnit& unit, const LanguageModelConfig& c, const std::string& name,
                       bool bias) {
    return unit.linear(name, c.hidden_size, c.hidden_size, bias);
  }

  [[nodiscard]] torch::Tensor attend(const torch::Tensor& x, const Batch& batch) const override {
    return merge_heads(causal_attention(split_heads(query_(x), heads_),
                                        split_heads(key_(x), heads_),
                                        split_heads(value_(x), heads_), batch.packing));
  }

  std::int64_t heads_;
  Linear query_, key_, value_;
};

class OptMlp final : public LinkedMlp {
 public:
  OptMlp(LanguageUnit& unit, const LanguageModelConfig& c)
      : LinkedMlp(c.activation, unit.layer_norm("final_layer_norm", c),
                  unit.linear("fc1", c.intermediate_size, c.hidden_size, c.mlp_bias),
                  unit.linear("fc2", c.hidden_size, c.intermediate_size, c.mlp_bias)) {}
};

}  // namespace

const LanguageFamily& opt_family() {
  static const LanguageFamily family{.tokens = "model.decoder.embed_tokens.weight",
                                     .positions = "model.decoder.embed_positions.weight",
                                     .first_position = kFirstPosition,
                                     .final_norm = "model.decoder.final_layer_norm",
                                     .norm = LanguageFamily::Norm::LayerNorm,
                                     .block_prefix = "model.decoder.layers.",
                                     .make_half = &make_linked_half<OptAttention, OptMlp>,
                                     .make_whole_block = &make_linked_block<OptAttention, OptMlp>};
  return family;
}

}  // namespace athanor
