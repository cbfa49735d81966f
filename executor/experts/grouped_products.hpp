// SPDX-License-Identifier: Apache-2.0
// Products of rows, sorted by expert, with the weights of their experts. The one place that chooses
// how: in one kernel on a GPU, where the number of rows of each expert never leaves the device, or
// expert by expert.
#pragma once

#include "executor/layers/side_by_side.hpp"

#include <torch/types.h>

#include <cstdint>

namespace athanor {

/// Layers [out, in] of all experts, expert by expert. An expert may have several side by side, as
/// gate and up are.
struct ExpertLayers {
  Tensors weights;
  std::int64_t per_expert = 1;
  Tensors biases = {};                         ///< [out] of each weight, or none
  [[nodiscard]] std::int64_t outputs() const;  ///< width of one expert's layers together
};

/// How products are computed. `Grouped` works on every device, and is fast on Hopper GPUs in bf16.
enum class GroupedBy { Kernel, Loop };
/// Kernel where rows are on a GPU and the weights lie as it takes them: evenly spaced, and with
/// rows of a multiple of 16 bytes.
[[nodiscard]] GroupedBy grouped_by(const torch::Tensor& rows, const ExpertLayers& layers);

/// Returns each row times its expert's weights, plus the biases, [rows, outputs]. `ends` is int32
/// [experts]: where each expert's rows end.
[[nodiscard]] torch::Tensor grouped_product(const torch::Tensor& rows, const ExpertLayers& layers,
                                            const torch::Tensor& ends, GroupedBy by);

/// Returns the gradient of the rows. `gradient` is that of grouped_product.
[[nodiscard]] torch::Tensor grouped_row_gradient(const torch::Tensor& gradient,
                                                 const ExpertLayers& layers,
                                                 const torch::Tensor& ends, GroupedBy by);

/// Adds the gradient of every weight to its bound .grad. Returns a gradient for each weight without
/// a bound .grad, and nothing for the others. Experts without rows get none, which is zero.
[[nodiscard]] Tensors grouped_weight_gradients(const torch::Tensor& gradient,
                                               const torch::Tensor& rows,
                                               const ExpertLayers& layers,
                                               const torch::Tensor& ends, GroupedBy by);

/// Does the same for the biases of layers that have them. `gradient` is that of grouped_product.
[[nodiscard]] Tensors grouped_bias_gradients(const torch::Tensor& gradient,
                                             const ExpertLayers& layers, const torch::Tensor& ends,
                                             GroupedBy by);

/// Returns each row of `gradient` [rows, outputs] times its expert's biases, fp32 [rows].
[[nodiscard]] torch::Tensor grouped_bias_products(const torch::Tensor& gradient,
                                                  const ExpertLayers& layers,
                                                  const torch::Tensor& ends);

}  // namespace athanor
