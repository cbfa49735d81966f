// SPDX-License-Identifier: Apache-2.0
// athanor's operators (executor/layers/fused_operators.hpp) on GPUs. LibTorch's dispatcher finds
// them when the plugin is loaded: nothing refers to them by name.
#include "executor/cuda/handles.hpp"
#include "executor/cuda/kernels/fused_kernels.hpp"
#include "executor/cuda/operators/matrix_products.hpp"
#include "executor/cuda/operators/operator_arguments.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

namespace athanor::cuda {
namespace {

at::Tensor column_sum(const at::Tensor& x) {
  const at::Tensor rows = readable(x);
  const Shape shape = shape_of(rows);
  const at::Tensor partials = floats(rows, {column_partials(shape.rows), shape.columns});
  at::Tensor sums = at::empty({shape.columns}, rows.options());
  launch_column_sums(current_stream(), element_of(rows), rows.const_data_ptr(), shape,
                     partials.mutable_data_ptr<float>(), sums.mutable_data_ptr());
  check_launch("column sums");
  return sums;
}

at::Tensor activate(const at::Tensor& x, c10::string_view activation) {
  const at::Tensor rows = readable(x);
  at::Tensor y = at::empty_like(rows);
  launch_activation(current_stream(), element_of(rows), activation_of(activation),
                    rows.const_data_ptr(), shape_of(rows), y.mutable_data_ptr());
  check_launch("activation");
  return y;
}

std::tuple<at::Tensor, at::Tensor> activate_backward(const at::Tensor& grad_y, const at::Tensor& x,
                                                     c10::string_view activation) {
  const at::Tensor gradient = readable(grad_y);
  const at::Tensor rows = readable(x);
  const Shape shape = shape_of(rows);
  const at::Tensor partials = floats(rows, {column_partials(shape.rows), shape.columns});
  at::Tensor grad_x = at::empty_like(rows);
  at::Tensor sums = at::empty({shape.columns}, rows.options());
  launch_activation_backward(current_stream(), element_of(rows), activation_of(activation),
                             gradient.const_data_ptr(), rows.const_data_ptr(), shape,
                             grad_x.mutable_data_ptr(), partials.mutable_data_ptr<float>(),
                             sums.mutable_data_ptr());
  check_launch("activation's gradient");
  return {grad_x, sums};
}

std::tuple<at::Tensor, at::Tensor> concatenate(const at::Tensor& first, const at::Tensor& second,
                                               const at::Tensor& third) {
  const at::Tensor parts[] = {readable(first), readable(second), readable(third)};
  const Shape part = shape_of(parts[0]);
  std::vector<std::int64_t> sizes = first.sizes().vec();
  sizes.back() *= 3;
  at::Tensor whole = at::empty(sizes, parts[0].options());
  at::Tensor sums = at::empty({3 * part.columns}, parts[0].options());
  const at::Tensor partials = floats(whole, {column_partials(part.rows), 3 * part.columns});
  launch_concatenate(
      current_stream(), element_of(whole),
      {{parts[0].const_data_ptr(), parts[1].const_data_ptr(), parts[2].const_data_ptr()}}, part,
      whole.mutable_data_ptr(), partials.mutable_data_ptr<float>(), sums.mutable_data_ptr());
  check_launch("concatenation");
  return {whole, sums};
}

/// Returns sum, normal, mean and inverse deviation. The sum is undefined where `x` is absent.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_layer_norm(
    const std::optional<at::Tensor>& x, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& offset, double epsilon) {
  const at::Tensor others = readable(residual);
  const at::Tensor rows = x ? readable(*x) : at::Tensor();
  const at::Tensor weights = readable(weight);
  const at::Tensor offsets = readable(offset);
  const Shape shape = shape_of(others);
  TORCH_CHECK(shape.columns <= kMostNormColumns, "fused layer norm takes ", kMostNormColumns,
              " columns, not ", shape.columns);
  at::Tensor sum = x ? at::empty_like(others) : at::Tensor();
  at::Tensor normal = at::empty_like(others);
  at::Tensor mean = floats(others, {shape.rows});
  at::Tensor inverse_deviation = floats(others, {shape.rows});
  launch_add_layer_norm(current_stream(), element_of(others),
                        {.a = x ? rows.const_data_ptr() : nullptr,
                         .residual = others.const_data_ptr(),
                         .weight = weights.const_data_ptr(),
                         .offset = offsets.const_data_ptr(),
                         .epsilon = static_cast<float>(epsilon),
                         .sum = x ? sum.mutable_data_ptr() : nullptr,
                         .normal = normal.mutable_data_ptr(),
                         .mean = mean.mutable_data_ptr<float>(),
                         .inverse_deviation = inverse_deviation.mutable_data_ptr<float>()},
                        shape);
  check_launch("layer norm");
  return {sum, normal, mean, inverse_deviation};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad_normal, const std::optional<at::Tensor>& grad_residual,
    const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse_deviation,
    const at::Tensor& weight, bool bias) {
  const at::Tensor gradient = readable(grad_normal);
  const at::Tensor residual = grad_residual ? readable(*grad_residual) : at::Tensor();
  const at::Tensor rows = readable(x);
  const at::Tensor weights = readable(weight);
  const Shape shape = shape_of(rows);
  const int blocks = norm_blocks(shape.rows);
  const at::Tensor partials = floats(rows, {3, blocks, shape.columns});
  at::Tensor grad_x = at::empty_like(rows);
  at::Tensor grad_weight = at::empty_like(weights);
  at::Tensor grad_offset = at::empty_like(weights);
  at::Tensor grad_bias = bias ? at::empty_like(weights) : at::Tensor();
  launch_layer_norm_backward(current_stream(), element_of(rows),
                             {.grad_normal = gradient.const_data_ptr(),
                              .grad_residual = grad_residual ? residual.const_data_ptr() : nullptr,
                              .x = rows.const_data_ptr(),
                              .weight = weights.const_data_ptr(),
                              .mean = mean.const_data_ptr<float>(),
                              .inverse_deviation = inverse_deviation.const_data_ptr<float>(),
                              .grad_x = grad_x.mutable_data_ptr(),
                              .grad_weight = grad_weight.mutable_data_ptr(),
                              .grad_offset = grad_offset.mutable_data_ptr(),
                              .grad_bias = bias ? grad_bias.mutable_data_ptr() : nullptr},
                             shape, blocks, partials.mutable_data_ptr<float>());
  check_launch("layer norm's gradient");
  return {grad_x, grad_weight, grad_offset, grad_bias};
}

at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, std::int64_t vocabulary,
                         bool with_gradients) {
  TORCH_CHECK(logits.dim() == 2 && logits.is_contiguous() && logits.size(1) >= vocabulary,
              "cross entropy takes contiguous [rows, vocabulary or more]");
  const Shape padded = shape_of(logits);
  const at::Tensor ids = targets.contiguous();
  at::Tensor losses = floats(logits, {padded.rows});
  launch_cross_entropy(current_stream(), element_of(logits), logits.mutable_data_ptr(),
                       {padded.rows, vocabulary}, padded.columns,
                       ids.const_data_ptr<std::int64_t>(), with_gradients,
                       losses.mutable_data_ptr<float>());
  check_launch("cross entropy");
  return losses;
}

}  // namespace
}  // namespace athanor::cuda

TORCH_LIBRARY_IMPL(athanor, CUDA, library) {
  namespace operators = athanor::cuda;
  library.impl("product", operators::product);
  library.impl("add_product_", operators::add_product);
  library.impl("product_into_", operators::product_into);
  library.impl("column_sum", operators::column_sum);
  library.impl("activate", operators::activate);
  library.impl("activate_backward", operators::activate_backward);
  library.impl("concatenate", operators::concatenate);
  library.impl("add_layer_norm", operators::add_layer_norm);
  library.impl("layer_norm_backward", operators::layer_norm_backward);
  library.impl("cross_entropy_", operators::cross_entropy);
}
