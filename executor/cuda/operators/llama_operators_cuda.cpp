// SPDX-License-Identifier: Apache-2.0
// The llama family's operators (executor/layers/fused_operators.hpp, attention_operators.hpp) on
// GPUs, but for attention itself.
#include "executor/cuda/handles.hpp"
#include "executor/cuda/operators/operator_arguments.hpp"

#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace athanor::cuda {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                            double epsilon) {
  const at::Tensor rows = readable(x), weights = readable(weight);
  const Shape shape = shape_of(rows);
  TORCH_CHECK(shape.columns <= kMostNormColumns, "fused RMS norm takes ", kMostNormColumns,
              " columns, not ", shape.columns);
  at::Tensor normal = at::empty_like(rows), inverse_rms = floats(rows, {shape.rows});
  launch_rms_norm(current_stream(), element_of(rows),
                  {.x = rows.const_data_ptr(),
                   .weight = weights.const_data_ptr(),
                   .epsilon = static_cast<float>(epsilon),
                   .normal = normal.mutable_data_ptr(),
                   .inverse_rms = inverse_rms.mutable_data_ptr<float>()},
                  shape);
  check_launch("RMS norm");
  return {normal, inverse_rms};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad_normal,
                                                     const MaybeTensor& grad_residual,
                                                     const at::Tensor& x,
                                                     const at::Tensor& inverse_rms,
                                                     const at::Tensor& weight) {
  const at::Tensor gradient = readable(grad_normal), rows = readable(x), weights = readable(weight);
  const at::Tensor residual = grad_residual ? readable(*grad_residual) : at::Tensor();
  const Shape shape = shape_of(rows);
  const int blocks = norm_blocks(shape.rows);
  const at::Tensor partials = floats(rows, {blocks, shape.columns});
  at::Tensor grad_x = at::empty_like(rows), grad_weight = at::empty_like(weights);
  launch_rms_norm_backward(current_stream(), element_of(rows),
                           {.grad_normal = gradient.const_data_ptr(),
                            .grad_residual = grad_residual ? residual.const_data_ptr() : nullptr,
                            .x = rows.const_data_ptr(),
                            .weight = weights.const_data_ptr(),
                            .inverse_rms = inverse_rms.const_data_ptr<float>(),
                            .grad_x = grad_x.mutable_data_ptr(),
                            .grad_weight = grad_weight.mutable_data_ptr()},
                           shape, blocks, partials.mutable_data_ptr<float>());
  check_launch("RMS norm's gradient");
  return {grad_x, grad_weight};
}

/// Returns half of the last dimension of gate and up, which lie side by side.
Shape gated_shape(const at::Tensor& packed) {
  const std::int64_t columns = packed.size(-1) / 2;
  TORCH_CHECK(packed.size(-1) % 16 == 0, "gated activations take two times a multiple of 8, not ",
              packed.size(-1), " columns");
  return {packed.numel() / packed.size(-1), columns};
}

at::Tensor gated_result(const at::Tensor& packed) {
  std::vector<std::int64_t> sizes = packed.sizes().vec();
  sizes.back() /= 2;
  return at::empty(sizes, packed.options());
}

at::Tensor gate(const at::Tensor& packed, c10::string_view activation) {
  const at::Tensor rows = readable(packed);
  const Shape shape = gated_shape(rows);
  at::Tensor y = gated_result(rows);
  launch_gate(current_stream(), element_of(rows), activation_of(activation), rows.const_data_ptr(),
              shape, y.mutable_data_ptr());
  check_launch("gated activation");
  return y;
}

std::tuple<at::Tensor, at::Tensor> gate_backward(const at::Tensor& grad_y, const at::Tensor& packed,
                                                 c10::string_view activation) {
  const at::Tensor gradient = readable(grad_y), rows = readable(packed);
  const Shape shape = gated_shape(rows);
  at::Tensor grad_packed = at::empty_like(rows), y = gated_result(rows);
  launch_gate_backward(current_stream(), element_of(rows), activation_of(activation),
                       {.grad_y = gradient.const_data_ptr(),
                        .packed = rows.const_data_ptr(),
                        .grad_packed = grad_packed.mutable_data_ptr(),
                        .y = y.mutable_data_ptr()},
                       shape);
  check_launch("gated activation's gradient");
  return {grad_packed, y};
}

/// Describes the rotation of the first `heads` heads of x [batch, sequence, width].
Rotation rotation_of(const at::Tensor& x, std::int64_t heads, at::ArrayRef<double> frequencies,
                     double scale, const MaybeTensor& positions) {
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  TORCH_CHECK(x.dim() == 3 && x.is_contiguous() && heads * 2 * pairs <= x.size(2),
              "rotation takes contiguous [batch, sequence, width], not ", x.sizes());
  TORCH_CHECK(pairs % 8 == 0 && pairs <= kMostFrequencies,
              "rotation takes heads of a multiple of 16 up to 256 elements, not ", 2 * pairs);
  Rotation rotation{};
  std::copy(frequencies.begin(), frequencies.end(), rotation.frequencies);
  rotation.scale = static_cast<float>(scale);
  rotation.head_dim = static_cast<int>(2 * pairs);
  rotation.heads = static_cast<int>(heads);
  rotation.sequence = x.size(1);
  if (positions) {
    TORCH_CHECK(positions->is_contiguous() && positions->numel() == x.size(0) * x.size(1),
                "rotation takes one position for each token");
    rotation.positions = positions->const_data_ptr<std::int64_t>();
  }
  return rotation;
}

std::int64_t tokens_of(const at::Tensor& x) { return x.size(0) * x.size(1); }

void rotate(at::Tensor& x, std::int64_t heads, at::ArrayRef<double> frequencies, double scale,
            const MaybeTensor& positions, bool back) {
  const Rotation rotation = rotation_of(x, heads, frequencies, scale, positions);
  launch_rotate(current_stream(), element_of(x), rotation, x.mutable_data_ptr(), x.size(2),
                tokens_of(x), back);
  check_launch("rotation");
}

HeadNorms head_norms(const at::Tensor& query_weight, const at::Tensor& key_weight,
                     std::int64_t query_heads, double epsilon) {
  return {query_weight.const_data_ptr(), key_weight.const_data_ptr(), static_cast<int>(query_heads),
          static_cast<float>(epsilon)};
}

at::Tensor norm_and_rotate(const at::Tensor& packed, std::int64_t query_heads,
                           std::int64_t key_heads, const at::Tensor& query_weight,
                           const at::Tensor& key_weight, double epsilon,
                           at::ArrayRef<double> frequencies, double scale,
                           const MaybeTensor& positions) {
  const std::int64_t heads = query_heads + key_heads;
  const Rotation rotation = rotation_of(packed, heads, frequencies, scale, positions);
  const at::Tensor query = readable(query_weight), key = readable(key_weight);
  at::Tensor rotated =
      at::empty({packed.size(0), packed.size(1), heads * rotation.head_dim}, packed.options());
  launch_norm_and_rotate(current_stream(), element_of(packed), rotation,
                         head_norms(query, key, query_heads, epsilon), packed.const_data_ptr(),
                         packed.size(2), tokens_of(packed), rotated.mutable_data_ptr());
  check_launch("norm and rotation");
  return rotated;
}

std::tuple<at::Tensor, at::Tensor> norm_and_rotate_backward(
    at::Tensor& gradient, const at::Tensor& packed, std::int64_t query_heads,
    std::int64_t key_heads, const at::Tensor& query_weight, const at::Tensor& key_weight,
    double epsilon, at::ArrayRef<double> frequencies, double scale, const MaybeTensor& positions) {
  TORCH_CHECK(gradient.is_contiguous() && gradient.sizes() == packed.sizes(),
              "a gradient of heads has the shape of the heads");
  const Rotation rotation =
      rotation_of(packed, query_heads + key_heads, frequencies, scale, positions);
  const at::Tensor query = readable(query_weight), key = readable(key_weight);
  const int blocks = norm_blocks(tokens_of(packed));
  const at::Tensor partials = floats(packed, {2, blocks, rotation.head_dim});
  at::Tensor grad_query = at::empty_like(query), grad_key = at::empty_like(key);
  launch_norm_and_rotate_backward(current_stream(), element_of(packed), rotation,
                                  head_norms(query, key, query_heads, epsilon),
                                  {.x = packed.const_data_ptr(),
                                   .gradient = gradient.mutable_data_ptr(),
                                   .stride = packed.size(2),
                                   .grad_query_weight = grad_query.mutable_data_ptr(),
                                   .grad_key_weight = grad_key.mutable_data_ptr()},
                                  tokens_of(packed), blocks, partials.mutable_data_ptr<float>());
  check_launch("gradient of norm and rotation");
  return {grad_query, grad_key};
}

}  // namespace
}  // namespace athanor::cuda

TORCH_LIBRARY_IMPL(athanor, CUDA, library) {
  namespace operators = athanor::cuda;
  library.impl("rms_norm", operators::rms_norm);
  library.impl("rms_norm_backward", operators::rms_norm_backward);
  library.impl("gate", operators::gate);
  library.impl("gate_backward", operators::gate_backward);
  library.impl("rotate_", operators::rotate);
  library.impl("norm_and_rotate", operators::norm_and_rotate);
  library.impl("norm_and_rotate_backward_", operators::norm_and_rotate_backward);
}
