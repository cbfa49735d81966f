// SPDX-License-Identifier: Apache-2.0
// The parts of a transformer block that are more than one operator. On a GPU each takes as few
// passes over memory as it can (fused_operators.hpp), forward and backward; where those are not
// available, they are LibTorch's operators one after another. Saved for backward is what LibTorch's
// operators save.
#pragma once

#include "executor/units/language_unit.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace athanor {

/// What goes on beside a branch, and the branch's input: its norm.
struct Branch {
  torch::Tensor trunk, normal;
};

/// x times the layer's weight plus its bias, which gets no gradient here. The bias is added before
/// the sum is rounded: a bias that is added to a rounded product and then rounded with a residual
/// decides ties, and there are many among sums of two bf16 numbers, so that a bias of 1e-7 would
/// move them all by half a unit in the last place.
/// Where fused operators are available. backward() adds the weight's gradient to its bound .grad
/// within the product, which otherwise takes a matrix of its own and a pass over both; where no
/// .grad is bound, the gradient is returned.
[[nodiscard]] torch::Tensor direct_product(const Linear& layer, const torch::Tensor& x);

/// {x, norm(x)}. Backward adds both gradients to x in the pass through the norm.
[[nodiscard]] Branch branch(const torch::Tensor& x, const LayerNorm& norm);

/// {residual + layer(x), its norm}.
[[nodiscard]] Branch add_and_branch(const torch::Tensor& residual, const Linear& layer,
                                    const torch::Tensor& x, const LayerNorm& norm);

/// `x`, which has `bias` in it already: the gradient of the bias is a pass of its own.
[[nodiscard]] torch::Tensor with_bias_gradient(const torch::Tensor& x, const torch::Tensor& bias);

/// activate(layer(x), activation).
[[nodiscard]] torch::Tensor activated(const Linear& layer, const torch::Tensor& x,
                                      const std::string& activation);

/// Causal attention of layer(x), which holds queries, keys and values side by side: x
/// [batch, sequence, width] -> [batch, sequence, width].
[[nodiscard]] torch::Tensor packed_attention(const Linear& layer, const torch::Tensor& x,
                                             std::int64_t heads);

}  // namespace athanor
