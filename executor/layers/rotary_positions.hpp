// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al. 2021) and the ways in which models stretch them.
#pragma once

#include "executor/layers/packing.hpp"
#include "sim/model/architecture.hpp"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace athanor {

/// Angles of a model's positions: position times frequency. Pair i of a head is elements i and
/// i + head_dim / 2.
struct RotaryFrequencies {
  std::vector<float> frequencies;  ///< [head_dim / 2], in radians
  double scale = 1;                ///< factor of all cosines and sines
};

/// Returns the frequencies of the model's base and scaling for sequences of `sequence` tokens, in
/// fp32 and in the order of transformers' modeling_rope_utils.py.
[[nodiscard]] RotaryFrequencies rotary_frequencies(std::int64_t sequence,
                                                   const LanguageModelConfig& config);

/// Cosines and sines of the rotary angles, each [sequence, head_dim], or [batch, 1, sequence,
/// head_dim] where documents have positions of their own.
struct RotaryTable {
  torch::Tensor cosines, sines;
};

/// Returns the table of positions 0 .. sequence - 1 on the device of `like`. Angles are computed in
/// fp32, and cosines and sines rounded to the type of `like`.
[[nodiscard]] RotaryTable rotary_table(std::int64_t sequence, const RotaryFrequencies& frequencies,
                                       const torch::Tensor& like);

/// Returns the table of a batch whose positions start again with each document.
[[nodiscard]] RotaryTable restarted(const RotaryTable& table,
                                    const std::optional<Packing>& packing);

/// Rotates the pairs of [batch, heads, sequence, head_dim].
[[nodiscard]] torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table);

}  // namespace athanor
