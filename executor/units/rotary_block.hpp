// SPDX-License-Identifier: Apache-2.0
// Attention with rotary positions and gated MLPs: the parts that llama and mixtures share.
#pragma once

#include "executor/layers/attention_operators.hpp"
#include "executor/layers/llama_layers.hpp"
#include "executor/units/block.hpp"
#include "sim/model/language_models.hpp"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

/// down(activation(gate(x)) * up(x)).
struct GatedMlp {
  Linear gate, up, down;
  [[nodiscard]] torch::Tensor operator()(const torch::Tensor& x,
                                         const std::string& activation) const {
    return down(activate(gate(x), activation) * up(x));
  }
};

/// Takes the layers NAMEgate_proj, NAMEup_proj and NAMEdown_proj of `unit`.
[[nodiscard]] GatedMlp gated_mlp(LanguageUnit& unit, const std::string& name, std::int64_t hidden,
                                 std::int64_t inner, bool bias);

/// Returns the norm before a block's other half.
[[nodiscard]] RmsNorm norm_behind_attention(LanguageUnit& unit, const LanguageModelConfig& config);

/// Groups layers that read the same input.
[[nodiscard]] LayerGroup group_of(std::initializer_list<Linear> layers);

/// Whether attention of `x` is made of fused operators. The other half of the block asks too: it
/// is fused where attention is.
[[nodiscard]] bool takes_fused_attention(const torch::Tensor& x, const LanguageModelConfig& config);

/// Returns the bytes of gate, up and their product, `inner` wide, with the gradients of all three.
/// Backward of a block's other half holds them at once. They have been freed when it comes to
/// attention, whose workspace takes their place.
[[nodiscard]] std::int64_t gated_bytes(const torch::Tensor& x, std::int64_t inner);

/// Attention with rotary positions.
class RotaryHalf final : public BlockHalf {
 public:
  /// `inner`: width of the MLP behind, or of all experts of a token. Attention's backward may take
  /// as much workspace as that half's does (gated_bytes). `config` has the block's own window.
  RotaryHalf(LanguageUnit& unit, const LanguageModelConfig& config, std::int64_t inner);

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& batch,
                                     torch::Tensor* sums) const override;

  [[nodiscard]] torch::Tensor normal(const torch::Tensor& x) const { return norm_(x); }
  /// Returns attention of `x`, which normal() has made, by LibTorch's own operators.
  [[nodiscard]] torch::Tensor attention(const torch::Tensor& x,
                                        const std::optional<Packing>& packing) const;

 private:
  [[nodiscard]] fused::HeadShape heads() const;
  [[nodiscard]] torch::Tensor fused_attention(const torch::Tensor& x,
                                              const std::optional<Packing>& packing) const;
  /// Normalizes queries and keys of `packed`, each across all heads.
  [[nodiscard]] torch::Tensor with_norms_across(const torch::Tensor& packed) const;

  LanguageModelConfig config_;
  std::int64_t inner_;
  HeadNormKind norms_;
  RmsNorm norm_, query_norm_, key_norm_;
  Linear query_, key_, value_, output_;
  torch::Tensor sinks_;  ///< [heads], or undefined
};

}  // namespace athanor
