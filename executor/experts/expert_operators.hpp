// SPDX-License-Identifier: Apache-2.0
// Operators on the rows of a mixture between its grouped products. A row is a pair (token, choice);
// rows are sorted by expert (routing.hpp). Where a plugin implements the operators for the device,
// each is one pass over memory, which adds in fp32, in the order of a token's choices, and rounds
// once. Elsewhere each is made of LibTorch's operators.
#pragma once

#include "executor/experts/routing.hpp"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

/// Returns the inverse of a permutation, int64 [rows].
[[nodiscard]] torch::Tensor inverse_permutation(const torch::Tensor& permutation);

/// Returns the rows [rows, columns] that tokens x [tokens, columns] send to their experts.
[[nodiscard]] torch::Tensor rows_of_tokens(const torch::Tensor& x, const Routing& routing);

/// Returns for each token the sum of its rows of x, [tokens, columns]. `rows` has the numbers of a
/// token's rows, `choices` of them for each token. With `weights` [tokens * choices], each row is
/// multiplied by its own first.
[[nodiscard]] torch::Tensor sum_rows(const torch::Tensor& x, const torch::Tensor& rows,
                                     std::int64_t choices,
                                     const std::optional<torch::Tensor>& weights = std::nullopt);

/// How an expert makes one of gate and up.
struct Gate {
  std::string activation;
  /// 0: activation(gate) * up. Above 0, gpt_oss's: gate is at most the limit and up within it and
  /// its negative, and they make gate * sigmoid(1.702 gate) * (up + 1). This takes LibTorch's
  /// operators on every device.
  double limit = 0;
};

/// Gradients through y = weight * made of gate and up, where `weight` is a row's, and gate and up
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
                                                           const Gate& gate);

/// Returns what is made of gate and up, where rows of `packed` are gate and then up.
[[nodiscard]] torch::Tensor gated(const torch::Tensor& packed, const Gate& gate);

}  // namespace athanor
