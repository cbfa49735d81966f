// SPDX-License-Identifier: Apache-2.0
// The parts of a transformer block that are more than one operator. On a GPU each takes as few
// passes over memory as it can (fused_operators.hpp), forward and backward. Without those operators
// each calls LibTorch's own, one after another. Both ways save the same tensors for backward.
#pragma once

#include "executor/layers/packing.hpp"
#include "executor/layers/plain_layers.hpp"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

/// The residual stream and the input of the branch that leaves it: the stream's norm.
struct Branch {
  torch::Tensor trunk, normal;
};

/// Returns x times the layer's weight plus its bias, which gets no gradient here. It needs the
/// fused operators.
///
/// The bias is added before the sum is rounded. A bias that is added to a rounded product, and then
/// rounded with a residual, decides ties. Ties are common among sums of two bf16 numbers. A bias as
/// small as 1e-7 would move all of them by half a unit in the last place.
///
/// backward() adds the weight's gradient to its bound .grad within the product. Otherwise the
/// gradient would take a matrix of its own and a pass over both. Without a bound .grad the gradient
/// is returned.
[[nodiscard]] torch::Tensor direct_product(const Linear& layer, const torch::Tensor& x);

/// Returns {x, norm(x)}. Backward adds both gradients to x in the pass through the norm.
[[nodiscard]] Branch branch(const torch::Tensor& x, const LayerNorm& norm);

/// Returns {residual + layer(x), its norm}.
[[nodiscard]] Branch add_and_branch(const torch::Tensor& residual, const Linear& layer,
                                    const torch::Tensor& x, const LayerNorm& norm);

/// Returns `x`, which contains `bias` already. Backward computes the bias's gradient in a pass of
/// its own.
[[nodiscard]] torch::Tensor with_bias_gradient(const torch::Tensor& x, const torch::Tensor& bias);

/// Returns activate(layer(x), activation).
[[nodiscard]] torch::Tensor activated(const Linear& layer, const torch::Tensor& x,
                                      const std::string& activation);

/// Causal attention of layer(x), which holds queries, keys and values side by side: x
/// [batch, sequence, width] -> [batch, sequence, width]. With `packing`, tokens see their own
/// document alone.
[[nodiscard]] torch::Tensor packed_attention(const Linear& layer, const torch::Tensor& x,
                                             std::int64_t heads,
                                             const std::optional<Packing>& packing = std::nullopt);

}  // namespace athanor
