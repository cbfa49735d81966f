// SPDX-License-Identifier: Apache-2.0
// What a mixture does to rows between its grouped products. A row is a pair (token, choice); rows
// are sorted by expert (routing.hpp). Where a plugin implements the operators for the device, each
// is one pass over memory; elsewhere it is made of LibTorch's. Sums are taken in fp32, in the order
// of a token's choices, and rounded once by the plugin's operators.
#pragma once

#include "executor/experts/routing.hpp"

#include <torch/types.h>

#include <string>

namespace athanor {

/// Returns the inverse of a permutation, int64 [rows].
[[nodiscard]] torch::Tensor inverse_permutation(const torch::Tensor& permutation);

/// Returns the rows [rows, columns] that tokens x [tokens, columns] send to their experts.
[[nodiscard]] torch::Tensor rows_of_tokens(const torch::Tensor& x, const Routing& routing);

/// Returns for each token the sum of its rows, [tokens, columns].
[[nodiscard]] torch::Tensor sum_rows(const torch::Tensor& rows, const Routing& routing);

/// Returns for each token the sum of its rows, each times the weight of its choice.
[[nodiscard]] torch::Tensor weighted_sum_rows(const torch::Tensor& rows, const Routing& routing);

/// Gradients through y = weight * activation(gate) * up, where `weight` is a row's, and gate and up
/// lie side by side in `packed` [rows, 2 * inner].
struct WeightedGateGradients {
  torch::Tensor inner;    ///< y, which need not be kept for backward, [rows, inner]
  torch::Tensor packed;   ///< gradient of gate and up
  torch::Tensor weights;  ///< gradient of weights, fp32 [tokens, choices]
};
/// `grad_y` [rows, inner] is the gradient of y / weight. Its memory becomes that of `inner` where
/// one pass does it.
[[nodiscard]] WeightedGateGradients weighted_gate_backward(const torch::Tensor& grad_y,
                                                           const torch::Tensor& packed,
                                                           const Routing& routing,
                                                           const std::string& activation);

/// Returns activation(gate) * up, where rows of `packed` are gate and then up.
[[nodiscard]] torch::Tensor gated(const torch::Tensor& packed, const std::string& activation);

}  // namespace athanor
