// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/side_by_side.hpp"

#include "executor/layers/fused_operators.hpp"

#include <algorithm>

namespace athanor {
namespace {

using torch::Tensor;

/// Whether the rows of `next` follow those of `tensor` in memory.
bool are_neighbours(const Tensor& tensor, const Tensor& next) {
  return tensor.is_contiguous() && next.is_contiguous() && tensor.is_alias_of(next) &&
         next.storage_offset() == tensor.storage_offset() + tensor.numel();
}

/// Returns the matrices as one view, or as they are where they are no neighbours.
Tensors joined(const Tensors& matrices) {
  const auto gap =
      std::adjacent_find(matrices.begin(), matrices.end(),
                         [](const Tensor& a, const Tensor& b) { return !are_neighbours(a, b); });
  if (gap != matrices.end()) return matrices;
  std::int64_t rows = 0;
  for (const Tensor& matrix : matrices) rows += matrix.size(0);
  const std::int64_t columns = matrices.front().size(1);
  return {matrices.front().detach().as_strided({rows, columns}, {columns, 1})};
}

std::int64_t total_outputs(const Tensors& weights) {
  std::int64_t outputs = 0;
  for (const Tensor& weight : weights) outputs += weight.size(0);
  return outputs;
}

/// Calls body(i, the columns of `whole` that belong to weight i).
template <typename Body>
void for_each_part(const Tensors& weights, const Tensor& whole, const Body& body) {
  std::int64_t column = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::int64_t outputs = weights[i].size(0);
    body(i, whole.slice(1, column, column + outputs));
    column += outputs;
  }
}

Tensors bound_gradients(const Tensors& weights) {
  Tensors gradients;
  for (const Tensor& weight : weights) {
    gradients.push_back(weight.is_leaf() ? weight.grad() : Tensor());
  }
  return gradients;
}

bool all_defined(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.defined(); });
}

}  // namespace

Tensor products(const LayerGroup& layers, const Tensor& rows) {
  const Tensors weights = layers.biases.empty() ? joined(layers.weights) : layers.weights;
  Tensor result = torch::empty({rows.size(0), total_outputs(weights)}, rows.options());
  for_each_part(weights, result, [&](std::size_t i, Tensor part) {
    const auto bias =
        layers.biases.empty() ? std::nullopt : std::optional(layers.biases[i].detach());
    fused::product_into(part, rows, weights[i].t(), bias);
  });
  return result;
}

Tensor row_gradient(const Tensors& weights, const Tensor& gradient) {
  const Tensors matrices = joined(weights);
  Tensor sum;
  for_each_part(matrices, gradient, [&](std::size_t i, const Tensor& part) {
    if (i == 0) {
      sum = fused::product(part, matrices[i]);
    } else {
      fused::add_product(sum, part, matrices[i]);
    }
  });
  return sum;
}

Tensors weight_gradients(const Tensors& weights, const Tensor& gradient, const Tensor& rows) {
  Tensors bound = bound_gradients(weights);
  Tensors returned(weights.size());
  if (all_defined(bound)) {
    Tensors sums = joined(bound);
    for_each_part(sums, gradient, [&](std::size_t i, const Tensor& part) {
      fused::add_product(sums[i], part.t(), rows);
    });
    return returned;
  }
  for_each_part(weights, gradient, [&](std::size_t i, const Tensor& part) {
    if (bound[i].defined()) {
      fused::add_product(bound[i], part.t(), rows);
    } else {
      returned[i] = fused::product(part.t(), rows);
    }
  });
  return returned;
}

Tensors bias_gradients(const Tensors& biases, const Tensor& gradient) {
  if (biases.empty()) return {};
  std::vector<std::int64_t> sizes;
  for (const Tensor& bias : biases) sizes.push_back(bias.size(0));
  return fused::column_sum(gradient).split_with_sizes(sizes);
}

}  // namespace athanor
