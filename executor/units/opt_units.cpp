// SPDX-License-Identifier: Apache-2.0
// OPT (Zhang et al. 2022): learned positions whose table starts at row 2, pre-norm, ReLU.
#include "executor/units/attention.hpp"
#include "executor/units/families.hpp"
#include "executor/units/fused_layers.hpp"
#include "executor/units/head_loss.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

/// Rows of the position table before position 0 (a padding id in the original vocabulary).
constexpr std::int64_t kPositionOffset = 2;

class OptEmbedding final : public LanguageUnit {
 public:
  OptEmbedding(const Unit& unit, const LanguageModelConfig& c, DataType dtype)
      : LanguageUnit(unit, "model.decoder.", dtype),
        tokens_(parameter("embed_tokens.weight", {c.vocab_size, c.hidden_size})),
        positions_(parameter("embed_positions.weight",
                             {c.max_positions + kPositionOffset, c.hidden_size})) {}

  torch::Tensor forward(torch::Tensor /*activation*/, const Batch& batch) override {
    const std::int64_t end = kPositionOffset + batch.inputs.size(1);
    return at::embedding(tokens_, batch.inputs) + positions_.slice(0, kPositionOffset, end);
  }

 private:
  torch::Tensor tokens_, positions_;
};

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

  torch::Tensor forward(torch::Tensor activation, const Batch& /*batch*/) override {
    Branch place = branch(activation, attention_norm_);
    place = add_and_branch(place.trunk, attention_output_, attention(place.normal), mlp_norm_);
    return place.trunk + contract_(activated(expand_, place.normal, config_.activation));
  }

 private:
  Linear square(const std::string& name, bool bias) {
    return linear(name, config_.hidden_size, config_.hidden_size, bias);
  }

  torch::Tensor attention(const torch::Tensor& x) const {
    const std::int64_t heads = config_.num_heads;
    return merge_heads(causal_attention(split_heads(query_(x), heads), split_heads(key_(x), heads),
                                        split_heads(value_(x), heads)));
  }

  LanguageModelConfig config_;
  LayerNorm attention_norm_, mlp_norm_;
  Linear query_, key_, value_, attention_output_, expand_, contract_;
};

class OptHead final : public LanguageUnit {
 public:
  OptHead(const Unit& unit, const LanguageModelConfig& c, const torch::Tensor& tokens,
          DataType dtype)
      : LanguageUnit(unit, "", dtype),
        norm_(layer_norm("model.decoder.final_layer_norm", c)),
        weight_(head_weight(c, tokens)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    return next_token_loss(norm_(activation), weight_, batch.targets);
  }

 private:
  LayerNorm norm_;
  torch::Tensor weight_;
};

}  // namespace

LanguageUnits make_opt_units(const Architecture& architecture, DataType dtype) {
  const LanguageModelConfig& c = *architecture.language_model;
  const auto embedding = std::make_shared<OptEmbedding>(architecture.units.front(), c, dtype);
  LanguageUnits units{embedding};
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    units.push_back(std::make_shared<OptBlock>(architecture.units.at(i + 1), c, i, dtype));
  }
  const torch::Tensor tokens =
      embedding->parameter("embed_tokens.weight", {c.vocab_size, c.hidden_size});
  units.push_back(std::make_shared<OptHead>(architecture.units.back(), c, tokens, dtype));
  return units;
}

}  // namespace athanor
