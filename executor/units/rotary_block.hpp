// SPDX-License-Identifier: Apache-2.0
// The base of the blocks of the llama family: attention with rotary positions, and a gated MLP.
#pragma once

#include "executor/layers/attention_operators.hpp"
#include "executor/layers/llama_layers.hpp"
#include "executor/units/language_unit.hpp"
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

/// Groups layers that read the same input.
[[nodiscard]] LayerGroup group_of(std::initializer_list<Linear> layers);

/// A block whose first half is attention with rotary positions.
class RotaryBlock : public LanguageUnit {
 protected:
  RotaryBlock(const Unit& unit, const LanguageModelConfig& config, std::int64_t layer,
              DataType dtype);

  /// Takes the layers NAMEgate_proj, NAMEup_proj and NAMEdown_proj.
  [[nodiscard]] GatedMlp gated_mlp(const std::string& name, std::int64_t inner, bool bias);

  /// Whether attention of `x` is made of fused operators.
  [[nodiscard]] bool takes_fused_attention(const torch::Tensor& x) const;
  /// Returns x + attention(norm(x)). `bytes_behind` is what the block's other half holds at most in
  /// backward: it has been freed when attention's backward wants its workspace.
  [[nodiscard]] torch::Tensor add_attention(const torch::Tensor& x,
                                            const std::optional<Packing>& packing,
                                            std::int64_t bytes_behind) const;

  [[nodiscard]] const LanguageModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const RmsNorm& mlp_norm() const noexcept { return mlp_norm_; }

 private:
  [[nodiscard]] Linear from_hidden(const std::string& name, std::int64_t out, bool bias);
  [[nodiscard]] fused::HeadShape heads() const;
  [[nodiscard]] torch::Tensor fused_attention(const torch::Tensor& x,
                                              const std::optional<Packing>& packing,
                                              std::int64_t bytes_behind) const;
  [[nodiscard]] torch::Tensor attention(const torch::Tensor& x,
                                        const std::optional<Packing>& packing) const;
  /// Normalizes queries and keys of `packed`, each across all heads.
  [[nodiscard]] torch::Tensor with_norms_across(const torch::Tensor& packed) const;

  LanguageModelConfig config_;
  HeadNormKind norms_;
  RmsNorm attention_norm_, mlp_norm_, query_norm_, key_norm_;
  Linear query_, key_, value_, attention_output_;
};

}  // namespace athanor
