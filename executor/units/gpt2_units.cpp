// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): learned positions, pre-norm, fused qkv, weights stored [in, out].
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_family.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

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

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    Branch stream = branch(activation, attention_norm_);
    stream = add_and_branch(
        stream.trunk, attention_output_,
        packed_attention(query_key_value_, stream.normal, config_.num_heads, batch.packing),
        mlp_norm_);
    return stream.trunk + contract_(activated(expand_, stream.normal, config_.activation));
  }

 private:
  LanguageModelConfig config_;
  LayerNorm attention_norm_, mlp_norm_;
  Linear query_key_value_, attention_output_, expand_, contract_;
};

}  // namespace

const LanguageFamily& gpt2_family() {
  static const LanguageFamily family{.tokens = "transformer.wte.weight",
                                     .positions = "transformer.wpe.weight",
                                     .final_norm = "transformer.ln_f",
                                     .norm = LanguageFamily::Norm::LayerNorm,
                                     .make_block = &make_block<Gpt2Block>};
  return family;
}

}  // namespace athanor
