// SPDX-License-Identifier: Apache-2.0
// Causal attention, shared by the model families.
#pragma once

#include "executor/layers/packing.hpp"

#include <torch/types.h>

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
/// own document alone. `scale` multiplies scores; without it, one over the root of head_dim does.
[[nodiscard]] torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                                             const torch::Tensor& value,
                                             const std::optional<Packing>& packing = std::nullopt,
                                             std::int64_t window = 0,
                                             std::optional<double> scale = std::nullopt);

}  // namespace athanor
