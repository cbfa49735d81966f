// SPDX-License-Identifier: Apache-2.0
// Causal attention and rotary positions, shared by the model families.
#pragma once

#include "executor/units/model.hpp"
#include "sim/model/architecture.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace athanor {

/// Views [batch, sequence, heads * head_dim] as [batch, heads, sequence, head_dim].
[[nodiscard]] torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads);

/// Turns [batch, heads, sequence, head_dim] into [batch, sequence, heads * head_dim].
[[nodiscard]] torch::Tensor merge_heads(const torch::Tensor& x);

/// Causal attention of split heads. `key` and `value` may have fewer heads than `query`
/// (grouped-query attention; their number must divide the query's). `window` is the number of
/// tokens that a query sees, itself included; 0 = all before it. With `packing`, a query sees its
/// own document alone.
[[nodiscard]] torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                                             const torch::Tensor& value,
                                             const std::optional<Packing>& packing = std::nullopt,
                                             std::int64_t window = 0);

/// Cosines and sines of the rotary angles, each [sequence, head_dim], or [batch, 1, sequence,
/// head_dim] where documents have positions of their own.
struct RotaryTable {
  torch::Tensor cosines, sines;
};

/// Returns the table of positions 0 .. sequence - 1 on the device of `like`, for the model's base
/// and scaling of positions. Angles are computed in fp32 and rounded to the type of `like`.
[[nodiscard]] RotaryTable rotary_table(std::int64_t sequence, const LanguageModelConfig& config,
                                       const torch::Tensor& like);

/// Returns the table of a batch whose positions start again with each document.
[[nodiscard]] RotaryTable restarted(const RotaryTable& table,
                                    const std::optional<Packing>& packing);

/// Rotates pairs (i, i + head_dim / 2) of [batch, heads, sequence, head_dim].
[[nodiscard]] torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table);

}  // namespace athanor
