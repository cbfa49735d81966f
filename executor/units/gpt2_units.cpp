// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): learned positions, pre-norm, fused qkv, weights stored [in, out].
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_family.hpp"

namespace athanor {

namespace {

class Gpt2Attention final : public LinkedAttention {
 public:
  Gpt2Attention(LanguageUnit& unit, const LanguageModelConfig& c)
      : LinkedAttention(unit.layer_norm("ln_1", c),
                        unit.transposed_linear("attn.c_proj", c.hidden_size, c.hidden_size)),
        heads_(c.num_heads),
        query_key_value_(unit.transposed_linear("attn.c_attn", c.hidden_size, 3 * c.hidden_size)) {}

 private:
  [[nodiscard]] torch::Tensor attend(const torch::Tensor& normal,
                                     const Batch& batch) const override {
    return packed_attention(query_key_value_, normal, heads_, batch.packing);
  }

  std::int64_t heads_;
  Linear query_key_value_;
};

class Gpt2Mlp final : public LinkedMlp {
 public:
  Gpt2Mlp(LanguageUnit& unit, const LanguageModelConfig& c)
      : LinkedMlp(c.activation, unit.layer_norm("ln_2", c),
                  unit.transposed_linear("mlp.c_fc", c.hidden_size, c.intermediate_size),
                  unit.transposed_linear("mlp.c_proj", c.intermediate_size, c.hidden_size)) {}
};

}  // namespace

const LanguageFamily& gpt2_family() {
  static const LanguageFamily family{
      .tokens = "transformer.wte.weight",
      .positions = "transformer.wpe.weight",
      .final_norm = "transformer.ln_f",
      .norm = LanguageFamily::Norm::LayerNorm,
      .block_prefix = "transformer.h.",
      .make_half = &make_linked_half<Gpt2Attention, Gpt2Mlp>,
      .make_whole_block = &make_linked_block<Gpt2Attention, Gpt2Mlp>};
  return family;
}

}  // namespace athanor
