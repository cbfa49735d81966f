// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): learned positions, pre-norm, fused qkv, weights stored [in, out].
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_family.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

constexpr const char* kGpt2Blocks = "transformer.h.";

class Gpt2Attention final : public BlockHalf {
 public:
  Gpt2Attention(LanguageUnit& unit, const LanguageModelConfig& c)
      : heads_(c.num_heads),
        norm_(unit.layer_norm("ln_1", c)),
        query_key_value_(unit.transposed_linear("attn.c_attn", c.hidden_size, 3 * c.hidden_size)),
        output_(unit.transposed_linear("attn.c_proj", c.hidden_size, c.hidden_size)) {}

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& batch,
                                     torch::Tensor* /*sums*/) const override {
    const Branch stream = branch(x, norm_);
    return stream.trunk + output_(attention(stream.normal, batch));
  }
  /// Returns add_to(x) and the norm of it.
  [[nodiscard]] Branch add_to(const torch::Tensor& x, const Batch& batch,
                              const LayerNorm& norm) const {
    const Branch stream = branch(x, norm_);
    return add_and_branch(stream.trunk, output_, attention(stream.normal, batch), norm);
  }

 private:
  [[nodiscard]] torch::Tensor attention(const torch::Tensor& normal, const Batch& batch) const {
    return packed_attention(query_key_value_, normal, heads_, batch.packing);
  }

  std::int64_t heads_;
  LayerNorm norm_;
  Linear query_key_value_, output_;
};

class Gpt2Mlp final : public BlockHalf {
 public:
  Gpt2Mlp(LanguageUnit& unit, const LanguageModelConfig& c)
      : activation_(c.activation),
        norm_(unit.layer_norm("ln_2", c)),
        expand_(unit.transposed_linear("mlp.c_fc", c.hidden_size, c.intermediate_size)),
        contract_(unit.transposed_linear("mlp.c_proj", c.intermediate_size, c.hidden_size)) {}

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& /*batch*/,
                                     torch::Tensor* /*sums*/) const override {
    return add_to(branch(x, norm_));
  }
  [[nodiscard]] torch::Tensor add_to(const Branch& stream) const {
    return stream.trunk + contract_(activated(expand_, stream.normal, activation_));
  }
  [[nodiscard]] const LayerNorm& norm() const noexcept { return norm_; }

 private:
  std::string activation_;
  LayerNorm norm_;
  Linear expand_, contract_;
};

/// Both halves, with one operator from attention's output to the other half's norm.
class Gpt2Block final : public LanguageUnit {
 public:
  Gpt2Block(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : LanguageUnit(unit, fmt::format("{}{}.", kGpt2Blocks, layer), dtype),
        attention_(*this, c),
        mlp_(*this, c) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    return mlp_.add_to(attention_.add_to(activation, batch, mlp_.norm()));
  }

 private:
  Gpt2Attention attention_;
  Gpt2Mlp mlp_;
};

std::unique_ptr<BlockHalf> make_gpt2_half(LanguageUnit& unit, const LanguageModelConfig& config,
                                          std::int64_t /*layer*/, Half half) {
  if (half == Half::Attention) return std::make_unique<Gpt2Attention>(unit, config);
  return std::make_unique<Gpt2Mlp>(unit, config);
}

}  // namespace

const LanguageFamily& gpt2_family() {
  static const LanguageFamily family{.tokens = "transformer.wte.weight",
                                     .positions = "transformer.wpe.weight",
                                     .final_norm = "transformer.ln_f",
                                     .norm = LanguageFamily::Norm::LayerNorm,
                                     .block_prefix = kGpt2Blocks,
                                     .make_half = &make_gpt2_half,
                                     .make_whole_block = &make_whole_block<Gpt2Block>};
  return family;
}

}  // namespace athanor
