// SPDX-License-Identifier: Apache-2.0
// The operators of experts (executor/experts/expert_operators.hpp) on GPUs, but for grouped
// products, which are LibTorch's.
#include "executor/cuda/handles.hpp"
#include "executor/cuda/operators/operator_arguments.hpp"

#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace athanor::cuda {
namespace {

const std::int64_t* places(const at::Tensor& rows) {
  TORCH_CHECK(rows.is_contiguous() && rows.scalar_type() == at::kLong,
              "rows are contiguous int64, not ", rows.scalar_type());
  return rows.const_data_ptr<std::int64_t>();
}

at::Tensor inverse_permutation(const at::Tensor& permutation) {
  const std::int64_t* const from = places(permutation);
  at::Tensor inverse = at::empty_like(permutation);
  launch_inverse_permutation(current_stream(), from, permutation.numel(),
                             inverse.mutable_data_ptr<std::int64_t>());
  check_launch("inverse permutation");
  return inverse;
}

at::Tensor rows_of_tokens(const at::Tensor& x, const at::Tensor& rows, std::int64_t choices) {
  const at::Tensor tokens = readable(x);
  const Shape shape = shape_of(tokens);
  TORCH_CHECK(rows.numel() == shape.rows * choices, "each token has ", choices, " rows, not ",
              rows.numel(), " of ", shape.rows);
  at::Tensor to = at::empty({rows.numel(), shape.columns}, tokens.options());
  launch_rows_of_tokens(current_stream(), element_of(tokens), tokens.const_data_ptr(), shape,
                        places(rows), static_cast<int>(choices), to.mutable_data_ptr());
  check_launch("rows of tokens");
  return to;
}

at::Tensor sum_rows(const at::Tensor& x, const at::Tensor& rows, std::int64_t choices,
                    const std::optional<at::Tensor>& weights) {
  const at::Tensor values = readable(x);
  const Shape shape{rows.numel() / choices, shape_of(values).columns};
  TORCH_CHECK(!weights || (weights->numel() == rows.numel() && weights->is_contiguous() &&
                           weights->scalar_type() == values.scalar_type()),
              "each row has one weight of its own type");
  at::Tensor sums = at::empty({shape.rows, shape.columns}, values.options());
  launch_sum_rows(current_stream(), element_of(values), values.const_data_ptr(), places(rows),
                  static_cast<int>(choices), weights ? weights->const_data_ptr() : nullptr, shape,
                  sums.mutable_data_ptr());
  check_launch("sum of rows");
  return sums;
}

std::tuple<at::Tensor, at::Tensor> weighted_gate_backward(at::Tensor& grad_y,
                                                          const at::Tensor& packed,
                                                          const at::Tensor& weights,
                                                          const at::Tensor& pairs,
                                                          c10::string_view activation) {
  const at::Tensor rows = readable(packed), factors = readable(weights);
  const Shape shape = shape_of(grad_y);
  TORCH_CHECK(grad_y.is_contiguous() && rows.numel() == 2 * grad_y.numel() &&
                  factors.numel() == shape.rows && pairs.numel() == shape.rows &&
                  factors.scalar_type() == grad_y.scalar_type(),
              "gate and up are twice as wide as their product, which is contiguous, and each row "
              "has one weight");
  at::Tensor grad_packed = at::empty_like(rows), grad_weights = floats(rows, weights.sizes());
  launch_weighted_gate_backward(current_stream(), element_of(rows), activation_of(activation),
                                {.grad_y = grad_y.mutable_data_ptr(),
                                 .packed = rows.const_data_ptr(),
                                 .weights = factors.const_data_ptr(),
                                 .pairs = places(pairs),
                                 .grad_packed = grad_packed.mutable_data_ptr(),
                                 .grad_weights = grad_weights.mutable_data_ptr<float>()},
                                shape);
  check_launch("weighted gate's gradient");
  return {grad_packed, grad_weights};
}

}  // namespace
}  // namespace athanor::cuda

TORCH_LIBRARY_IMPL(athanor, CUDA, library) {
  namespace operators = athanor::cuda;
  library.impl("inverse_permutation", operators::inverse_permutation);
  library.impl("rows_of_tokens", operators::rows_of_tokens);
  library.impl("sum_rows", operators::sum_rows);
  library.impl("weighted_gate_backward_", operators::weighted_gate_backward);
}
