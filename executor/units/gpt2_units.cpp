// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): learned positions, pre-norm, fused qkv, weights stored [in, out].
#include "executor/units/families.hpp"
#include "executor/units/fused_layers.hpp"
#include "executor/units/head_loss.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

class Gpt2Embedding final : public LanguageUnit {
 public:
  Gpt2Embedding(const Unit& unit, const LanguageModelConfig& c, DataType dtype)
      : LanguageUnit(unit, "transformer.", dtype),
        tokens_(parameter("wte.weight", {c.vocab_size, c.hidden_size})),
        positions_(parameter("wpe.weight", {c.max_positions, c.hidden_size})) {}

  torch::Tensor forward(torch::Tensor /*activation*/, const Batch& batch) override {
    return at::embedding(tokens_, batch.inputs) + positions_.slice(0, 0, batch.inputs.size(1));
  }

 private:
  torch::Tensor tokens_, positions_;
};

class Gpt2Block final : public LanguageUnit {
 public:
  Gpt2Block(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : LanguageUnit(unit, fmt::format("transformer.h.{}.", layer), dtype),
        config_(c),
        attention_norm_(layer_norm("ln_1", c)),
        mlp_norm_(layer_norm("ln_2", c)),
        query_key_value_(transposed_linear("attn.c_attn", c.hidden_size, 3 * c.hidden_size)),
        attention_output_(transposed_linear("attn.c_proj", c.hidden_size, c.hidden_size)),
        expand_(transposed_linear("mlp.c_fc", c.hidden_size, c.intermediate_size)),
        contract_(transposed_linear("mlp.c_proj", c.intermediate_size, c.hidden_size)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& /*batch*/) override {
    Branch place = branch(activation, attention_norm_);
    place = add_and_branch(place.trunk, attention_output_,
                           packed_attention(query_key_value_, place.normal, config_.num_heads),
                           mlp_norm_);
    return place.trunk + contract_(activated(expand_, place.normal, config_.activation));
  }

 private:
  LanguageModelConfig config_;
  LayerNorm attention_norm_, mlp_norm_;
  Linear query_key_value_, attention_output_, expand_, contract_;
};

class Gpt2Head final : public LanguageUnit {
 public:
  Gpt2Head(const Unit& unit, const LanguageModelConfig& c, const torch::Tensor& tokens,
           DataType dtype)
      : LanguageUnit(unit, "", dtype),
        norm_(layer_norm("transformer.ln_f", c)),
        weight_(head_weight(c, tokens)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    return next_token_loss(norm_(activation), weight_, batch.targets);
  }

 private:
  LayerNorm norm_;
  torch::Tensor weight_;
};

}  // namespace

LanguageUnits make_gpt2_units(const Architecture& architecture, DataType dtype) {
  const LanguageModelConfig& c = *architecture.language_model;
  const auto embedding = std::make_shared<Gpt2Embedding>(architecture.units.front(), c, dtype);
  LanguageUnits units{embedding};
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    units.push_back(std::make_shared<Gpt2Block>(architecture.units.at(i + 1), c, i, dtype));
  }
  const torch::Tensor tokens = embedding->parameter("wte.weight", {c.vocab_size, c.hidden_size});
  units.push_back(std::make_shared<Gpt2Head>(architecture.units.back(), c, tokens, dtype));
  return units;
}

}  // namespace athanor
