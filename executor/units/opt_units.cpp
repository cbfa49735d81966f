// SPDX-License-Identifier: Apache-2.0
// OPT (Zhang et al. 2022): learned positions whose table starts at row 2, pre-norm, ReLU.
#include "executor/layers/attention.hpp"
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_family.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

/// Row of the position table that holds position 0. The rows before it belong to padding in the
/// original vocabulary.
constexpr std::int64_t kFirstPosition = 2;

class OptBlock final : public LanguageUnit {
 public:
  OptBlock(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : LanguageUnit(unit, fmt::format("model.decoder.layers.{}.", layer), dtype),
        config_(c),
        attention_norm_(layer_norm("self_attn_layer_norm", c)),
        mlp_norm_(layer_norm("final_layer_norm", c)),
        query_(square("self_attn.q_proj", c.attention_bias)),
        key_(square("self_attn.k_proj", c.attention_bias)),
        value_(square("self_attn.v_proj", c.attention_bias)),
        attention_output_(square("self_attn.out_proj", c.attention_output_bias)),
        expand_(linear("fc1", c.intermediate_size, c.hidden_size, c.mlp_bias)),
        contract_(linear("fc2", c.hidden_size, c.intermediate_size, c.mlp_bias)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    Branch stream = branch(activation, attention_norm_);
    stream = add_and_branch(stream.trunk, attention_output_,
                            attention(stream.normal, batch.packing), mlp_norm_);
    return stream.trunk + contract_(activated(expand_, stream.normal, config_.activation));
  }

 private:
  Linear square(const std::string& name, bool bias) {
    return linear(name, config_.hidden_size, config_.hidden_size, bias);
  }

  torch::Tensor attention(const torch::Tensor& x, const std::optional<Packing>& packing) const {
    const std::int64_t heads = config_.num_heads;
    return merge_heads(causal_attention(split_heads(query_(x), heads), split_heads(key_(x), heads),
                                        split_heads(value_(x), heads), packing));
  }

  LanguageModelConfig config_;
  LayerNorm attention_norm_, mlp_norm_;
  Linear query_, key_, value_, attention_output_, expand_, contract_;
};

}  // namespace

const LanguageFamily& opt_family() {
  static const LanguageFamily family{.tokens = "model.decoder.embed_tokens.weight",
                                     .positions = "model.decoder.embed_positions.weight",
                                     .first_position = kFirstPosition,
                                     .final_norm = "model.decoder.final_layer_norm",
                                     .norm = LanguageFamily::Norm::LayerNorm,
                                     .make_block = &make_block<OptBlock>};
  return family;
}

}  // namespace athanor
