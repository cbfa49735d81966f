// SPDX-License-Identifier: Apache-2.0
// Launchers of the kernels that take several memory-bound operators of a unit in one pass. Matrices
// are [rows, columns], row after row, with columns a multiple of 8 and 16-byte aligned. Everything
// is computed in fp32 and rounded once. Sums over rows are added in an order that only the shape
// and, for layer norm, the number of the GPU's processors decide.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace athanor::cuda {

enum class Element { Float32, BFloat16 };
enum class Activation { GeluTanh, Gelu, Relu, Silu };

struct Shape {
  std::int64_t rows, columns;
};

/// fp32 scratch for sums over rows: this many times `columns` elements.
[[nodiscard]] std::int64_t column_partials(std::int64_t rows);

/// sums[j] = sum over i of x[i, j].
void launch_column_sums(cudaStream_t stream, Element element, const void* x, Shape shape,
                        float* partials, void* sums);

/// y = activation(x).
void launch_activation(cudaStream_t stream, Element element, Activation activation, const void* x,
                       Shape shape, void* y);

/// grad_x = grad_y * activation'(x); sums[j] = sum over i of grad_x[i, j], the gradient of a bias
/// that is in x.
void launch_activation_backward(cudaStream_t stream, Element element, Activation activation,
                                const void* grad_y, const void* x, Shape shape, void* grad_x,
                                float* partials, void* sums);

/// Three matrices of `part`'s shape side by side, and the sums over rows of the whole.
struct Parts {
  const void* at[3];
};
void launch_concatenate(cudaStream_t stream, Element element, Parts parts, Shape part, void* whole,
                        float* partials, void* sums);

/// Columns that layer norm's kernels can hold.
inline constexpr std::int64_t kMostNormColumns = 12288;

/// sum = a + residual, or residual where `a` is null (sum is not written then);
/// normal = (sum - mean) * inverse_deviation * weight + offset, of the rounded sum.
struct AddLayerNorm {
  const void *a, *residual, *weight, *offset;
  float epsilon;
  void *sum, *normal;
  float *mean, *inverse_deviation;  ///< [rows]
};
void launch_add_layer_norm(cudaStream_t stream, Element element, const AddLayerNorm& arguments,
                           Shape shape);

/// grad_x = gradient through the norm of x + grad_residual; the latter may be null. Sums over rows:
/// grad_weight, grad_offset and, where it is not null, grad_bias = sum of grad_x.
struct LayerNormBackward {
  const void *grad_normal, *grad_residual, *x, *weight;
  const float *mean, *inverse_deviation;
  void *grad_x, *grad_weight, *grad_offset, *grad_bias;
};
/// `partials`: 3 * blocks * columns elements.
void launch_layer_norm_backward(cudaStream_t stream, Element element,
                                const LayerNormBackward& arguments, Shape shape, int blocks,
                                float* partials);

/// Each row's -log softmax(logits)[target] in `losses`; NaN where the target is no column. With
/// `with_gradients`, logits become softmax less one at the target. `stride`: elements from row to
/// row, a multiple of 8; columns from shape.columns on stay as they are.
void launch_cross_entropy(cudaStream_t stream, Element element, void* logits, Shape shape,
                          std::int64_t stride, const std::int64_t* targets, bool with_gradients,
                          float* losses);

}  // namespace athanor::cuda
