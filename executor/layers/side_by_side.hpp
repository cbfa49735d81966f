// SPDX-License-Identifier: Apache-2.0
// Products of one input with the weights of several layers, whose outputs lie side by side. Weights
// that are neighbours in the unit's storage are multiplied as one matrix, without a copy.
#pragma once

#include <torch/types.h>

#include <vector>

namespace athanor {

using Tensors = std::vector<torch::Tensor>;

/// Layers [out, in] that read the same input. Either all have a bias [out], or none has.
struct LayerGroup {
  Tensors weights, biases;
};

/// Returns rows [rows, in] times all weights, plus the biases: [rows, sum of out].
[[nodiscard]] torch::Tensor products(const LayerGroup& layers, const torch::Tensor& rows);

/// Returns the gradient of the rows. `gradient` is that of products(), [rows, sum of out].
[[nodiscard]] torch::Tensor row_gradient(const Tensors& weights, const torch::Tensor& gradient);

/// Adds the gradient of every weight to its bound .grad, within the product. Returns a gradient for
/// each weight without a bound .grad, and nothing for the others.
[[nodiscard]] Tensors weight_gradients(const Tensors& weights, const torch::Tensor& gradient,
                                       const torch::Tensor& rows);

/// Returns the gradients of `biases` from that of the products.
[[nodiscard]] Tensors bias_gradients(const Tensors& biases, const torch::Tensor& gradient);

}  // namespace athanor
