// SPDX-License-Identifier: Apache-2.0
// The llama family (Touvron et al. 2023): RMSNorm, rotary positions, grouped-query attention and a
// gated MLP. mistral adds a sliding window, qwen2 biases of q, k and v, qwen3 norms of each head's
// q and k.
#include "executor/layers/fused_operators.hpp"
#include "executor/units/language_family.hpp"
#include "executor/units/rotary_block.hpp"

namespace athanor {

namespace {

class LlamaMlp final : public BlockHalf {
 public:
  LlamaMlp(LanguageUnit& unit, const LanguageModelConfig& c)
      : config_(c),
        norm_(norm_behind_attention(unit, c)),
        mlp_(gated_mlp(unit, "mlp.", c.hidden_size, c.intermediate_size, c.mlp_bias)) {}

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& /*batch*/,
                                     torch::Tensor* /*sums*/) const override {
    if (!takes_fused_attention(x, config_) || !fused::available(mlp_.down.weight)) {
      return x + mlp_(norm_(x), config_.activation);
    }
    const Projected stream = norm_and_project(x, norm_, group_of({mlp_.gate, mlp_.up}));
    return add_gated_projection(stream.trunk, mlp_.down, stream.outputs, config_.activation);
  }

 private:
  LanguageModelConfig config_;
  RmsNorm norm_;
  GatedMlp mlp_;
};

std::unique_ptr<BlockHalf> make_llama_half(LanguageUnit& unit, const LanguageModelConfig& config,
                                           std::int64_t /*layer*/, Half half) {
  if (half == Half::Behind) return std::make_unique<LlamaMlp>(unit, config);
  return std::make_unique<RotaryHalf>(unit, config, config.intermediate_size);
}

}  // namespace

const LanguageFamily& llama_family() {
  static const LanguageFamily family{.tokens = "model.embed_tokens.weight",
                                     .positions = "",
                                     .final_norm = "model.norm",
                                     .norm = LanguageFamily::Norm::RmsNorm,
                                     .block_prefix = "model.layers.",
                                     .make_half = &make_llama_half};
  return family;
}

}  // namespace athanor
