// SPDX-License-Identifier: Apache-2.0
#include "executor/experts/grouped_products.hpp"

#include <ATen/ops/_grouped_mm.h>

#include <algorithm>
#include <optional>

namespace athanor {
namespace {

using torch::Tensor;

constexpr std::int64_t kKernelMultiple = 8;  // 16 bytes of bf16

/// Views tensors of one shape as one [elements]; nothing where they do not lie one behind the other
/// in one storage.
std::optional<Tensor> consecutive(const Tensors& tensors) {
  const Tensor& first = tensors.front();
  const auto elements = first.numel();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const bool fits =
        tensor.is_contiguous() && tensor.is_alias_of(first) && tensor.sizes() == first.sizes() &&
        tensor.storage_offset() == first.storage_offset() + static_cast<std::int64_t>(i) * elements;
    if (!fits) return std::nullopt;
  }
  return first.detach().as_strided({static_cast<std::int64_t>(tensors.size()) * elements}, {1});
}

/// Views the matrices of all experts as [experts, outputs, in]; nothing where they are not evenly
/// spaced in one storage.
std::optional<Tensor> stacked(const Tensors& matrices, std::int64_t per_expert) {
  const Tensor& first = matrices.front();
  const auto all = consecutive(matrices);
  if (!all) return std::nullopt;
  return all->view({-1, per_expert * first.size(0), first.size(1)});
}

Tensors bound_gradients(const Tensors& weights) {
  Tensors gradients;
  for (const Tensor& weight : weights) {
    gradients.push_back(weight.is_leaf() ? weight.grad() : Tensor());
  }
  return gradients;
}

/// Calls body(i, first row, last row, first column, last column) for each layer whose expert has
/// rows. Reads `ends` on the host.
template <typename Body>
void for_each_layer(const ExpertLayers& layers, const Tensor& ends, const Body& body) {
  const Tensor on_host = ends.cpu();
  const auto* const end = on_host.data_ptr<std::int32_t>();
  const std::int64_t outputs = layers.weights.front().size(0);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(layers.weights.size()); ++i) {
    const std::int64_t expert = i / layers.per_expert, layer = i % layers.per_expert;
    const std::int64_t begin = expert == 0 ? 0 : end[expert - 1];
    if (begin == end[expert]) continue;
    body(
        static_cast<std::size_t>(i),
        [&](const Tensor& rows) { return rows.slice(0, begin, end[expert]); },
        [&](const Tensor& rows) {
          return rows.slice(0, begin, end[expert]).slice(1, layer * outputs, (layer + 1) * outputs);
        });
  }
}

/// Widens bf16 on the host to fp32. LibTorch's bf16 products there take scratch memory that grows
/// with the rows of an expert, and a unit's memory must not depend on how tokens are routed.
Tensor widened(const Tensor& x) { return x.is_cpu() ? x.detach().to(torch::kFloat32) : x.detach(); }

Tensor loop_product(const Tensor& rows, const ExpertLayers& layers, const Tensor& ends) {
  const Tensor wide = widened(rows);
  Tensor result = torch::empty({rows.size(0), layers.outputs()}, wide.options());
  for_each_layer(layers, ends, [&](std::size_t i, const auto& in, const auto& out) {
    Tensor part = out(result);
    const Tensor weight = widened(layers.weights[i]).t();
    if (layers.biases.empty()) {
      at::mm_out(part, in(wide), weight);
    } else {
      at::addmm_out(part, widened(layers.biases[i]), in(wide), weight);
    }
  });
  return result.to(rows.scalar_type());
}

Tensor loop_row_gradient(const Tensor& gradient, const ExpertLayers& layers, const Tensor& ends) {
  const Tensor wide = widened(gradient);
  Tensor result = torch::empty({gradient.size(0), layers.weights.front().size(1)}, wide.options());
  for_each_layer(layers, ends, [&](std::size_t i, const auto& in, const auto& out) {
    Tensor part = in(result);
    const Tensor weight = widened(layers.weights[i]);
    const bool is_first = static_cast<std::int64_t>(i) % layers.per_expert == 0;
    if (is_first) {
      at::mm_out(part, out(wide), weight);
    } else {
      part.addmm_(out(wide), weight);
    }
  });
  return result.to(gradient.scalar_type());
}

Tensors loop_weight_gradients(const Tensor& gradient, const Tensor& rows,
                              const ExpertLayers& layers, const Tensor& ends) {
  const Tensor wide_gradient = widened(gradient), wide_rows = widened(rows);
  const bool is_wide = wide_rows.scalar_type() != rows.scalar_type();
  Tensors bound = bound_gradients(layers.weights);
  Tensors returned(layers.weights.size());
  for_each_layer(layers, ends, [&](std::size_t i, const auto& in, const auto& out) {
    const Tensor left = out(wide_gradient).t(), right = in(wide_rows);
    if (!bound[i].defined()) {
      returned[i] = at::mm(left, right).to(rows.scalar_type());
    } else if (is_wide) {
      bound[i].add_(at::mm(left, right));
    } else {
      bound[i].addmm_(left, right);
    }
  });
  return returned;
}

/// Returns the biases of each row's expert, [rows, outputs]. Rows behind those of all experts get
/// some expert's.
Tensor biases_of_rows(const ExpertLayers& layers, const Tensor& ends, std::int64_t rows) {
  const at::NoGradGuard no_gradient;
  const Tensor row = torch::arange(rows, ends.options());
  const Tensor expert = at::searchsorted(ends, row, /*out_int32=*/true, /*right=*/true);
  return torch::cat(layers.biases)
      .view({-1, layers.outputs()})
      .index_select(0, expert.clamp_max(ends.size(0) - 1));
}

Tensors loop_bias_gradients(const Tensor& gradient, const ExpertLayers& layers,
                            const Tensor& ends) {
  const Tensor wide = widened(gradient);
  Tensors bound = bound_gradients(layers.biases);
  Tensors returned(layers.biases.size());
  for_each_layer(layers, ends, [&](std::size_t i, const auto& /*in*/, const auto& out) {
    const Tensor sum = out(wide).sum(0);
    if (bound[i].defined()) {
      bound[i].add_(sum);
    } else {
      returned[i] = sum.to(gradient.scalar_type());
    }
  });
  return returned;
}

/// Adds `all`, which has the gradients one behind the other, to the bound ones of `parameters`, and
/// returns the others.
Tensors bound_or_returned(const Tensor& all, const Tensors& parameters) {
  Tensors bound = bound_gradients(parameters);
  Tensors returned(parameters.size());
  const bool is_bound =
      std::all_of(bound.begin(), bound.end(), [](const Tensor& g) { return g.defined(); });
  if (is_bound) {
    if (auto sums = consecutive(bound)) {
      sums->add_(all.flatten());
      return returned;
    }
  }
  const Tensors parts = all.flatten().split(parameters.front().numel());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor part = parts[i].view_as(parameters[i]);
    if (bound[i].defined()) {
      bound[i].add_(part);
    } else {
      returned[i] = part;
    }
  }
  return returned;
}

/// A bias is the weight of an input that is 1. Kernels take inputs of a multiple of 16 bytes.
Tensors kernel_bias_gradients(const Tensor& gradient, const ExpertLayers& layers,
                              const Tensor& ends) {
  const Tensor ones = torch::ones({gradient.size(0), kKernelMultiple}, gradient.options());
  return bound_or_returned(at::_grouped_mm(gradient.t(), ones, ends).select(2, 0), layers.biases);
}

Tensors kernel_weight_gradients(const Tensor& gradient, const Tensor& rows,
                                const ExpertLayers& layers, const Tensor& ends) {
  // bf16 rounds the products once before they are added.
  return bound_or_returned(at::_grouped_mm(gradient.t(), rows, ends), layers.weights);
}

}  // namespace

std::int64_t ExpertLayers::outputs() const { return per_expert * weights.front().size(0); }

GroupedBy grouped_by(const Tensor& rows, const ExpertLayers& layers) {
  const Tensor& first = layers.weights.front();
  const bool is_even = first.size(0) % kKernelMultiple == 0 && first.size(1) % kKernelMultiple == 0;
  const bool fits = rows.is_cuda() && is_even && stacked(layers.weights, layers.per_expert);
  return fits ? GroupedBy::Kernel : GroupedBy::Loop;
}

Tensor grouped_product(const Tensor& rows, const ExpertLayers& layers, const Tensor& ends,
                       GroupedBy by) {
  if (by == GroupedBy::Loop) return loop_product(rows, layers, ends);
  Tensor result =
      at::_grouped_mm(rows, stacked(layers.weights, layers.per_expert)->transpose(1, 2), ends);
  if (!layers.biases.empty()) result.add_(biases_of_rows(layers, ends, rows.size(0)));
  return result;
}

Tensor grouped_row_gradient(const Tensor& gradient, const ExpertLayers& layers, const Tensor& ends,
                            GroupedBy by) {
  if (by == GroupedBy::Loop) return loop_row_gradient(gradient, layers, ends);
  return at::_grouped_mm(gradient, *stacked(layers.weights, layers.per_expert), ends);
}

Tensors grouped_weight_gradients(const Tensor& gradient, const Tensor& rows,
                                 const ExpertLayers& layers, const Tensor& ends, GroupedBy by) {
  return by == GroupedBy::Loop ? loop_weight_gradients(gradient, rows, layers, ends)
                               : kernel_weight_gradients(gradient, rows, layers, ends);
}

Tensors grouped_bias_gradients(const Tensor& gradient, const ExpertLayers& layers,
                               const Tensor& ends, GroupedBy by) {
  if (layers.biases.empty()) return {};
  return by == GroupedBy::Loop ? loop_bias_gradients(gradient, layers, ends)
                               : kernel_bias_gradients(gradient, layers, ends);
}

Tensor grouped_bias_products(const Tensor& gradient, const ExpertLayers& layers,
                             const Tensor& ends) {
  return biases_of_rows(layers, ends, gradient.size(0))
      .mul_(gradient)
      .sum(-1, /*keepdim=*/false, torch::kFloat32);
}

}  // namespace athanor
