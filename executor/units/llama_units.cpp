// SPDX-License-Identifier: Apache-2.0
// The llama family (Touvron et al. 2023): RMSNorm, rotary positions, grouped-query attention and a
// gated MLP. mistral adds a sliding window, qwen2 biases of q, k and v, qwen3 norms of each head's
// q and k.
#include "executor/layers/fused_operators.hpp"
#include "executor/units/language_family.hpp"
#include "executor/units/rotary_block.hpp"

namespace athanor {

namespace {

class LlamaBlock final : public RotaryBlock {
 public:
  LlamaBlock(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : RotaryBlock(unit, c, layer, dtype),
        mlp_(gated_mlp("mlp.", c.intermediate_size, c.mlp_bias)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    const torch::Tensor middle = add_attention(activation, batch.packing, gated_bytes(activation));
    if (!takes_fused_attention(activation) || !fused::available(mlp_.down.weight)) {
      return middle + mlp_(mlp_norm()(middle), config().activation);
    }
    const Projected stream = norm_and_project(middle, mlp_norm(), group_of({mlp_.gate, mlp_.up}));
    return add_gated_projection(stream.trunk, mlp_.down, stream.outputs, config().activation);
  }

 private:
  /// Bytes of gate, up and their product with the gradients of all three. Backward holds them at
  /// once and has freed them when it comes to attention, whose workspace takes their place.
  [[nodiscard]] std::int64_t gated_bytes(const torch::Tensor& x) const {
    constexpr std::int64_t kMatrices = 6;
    return kMatrices * config().intermediate_size * x.size(0) * x.size(1) * x.element_size();
  }

  GatedMlp mlp_;
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
