// SPDX-License-Identifier: Apache-2.0
// Launchers of the kernels that take several memory-bound operators of a unit in one pass. Matrices
// are [rows, columns], row after row, with columns a multiple of 8 and 16-byte aligned. Everything
// is computed in fp32 and rounded once. Only the shape decides the order in which rows are summed,
// and for layer norm the number of the GPU's processors, too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace athanor::cuda {

enum class Element { Float32, BFloat16 };
enum class ActivationFunction { GeluTanh, Gelu, Relu, Silu };

struct Shape {
  std::int64_t rows, columns;
};

/// Rows of the scratch for sums over rows, which is fp32 [column_partials(rows), columns].
[[nodiscard]] std::int64_t column_partials(std::int64_t rows);

/// Computes sums[j] = sum over i of x[i, j].
void launch_column_sums(cudaStream_t stream, Element element, const void* x, Shape shape,
                        float* partials, void* sums);

/// Computes y = activation(x).
void launch_activation(cudaStream_t stream, Element element, ActivationFunction activation,
                       const void* x, Shape shape, void* y);

/// Computes grad_x = grad_y * activation'(x), and sums[j] = sum over i of grad_x[i, j], the
/// gradient of a bias that is in x.
void launch_activation_backward(cudaStream_t stream, Element element, ActivationFunction activation,
                                const void* grad_y, const void* x, Shape shape, void* grad_x,
                                float* partials, void* sums);

/// Three matrices of one shape.
struct Parts {
  const void* at[3];
};
/// Writes `parts`, each of shape `part`, side by side into `whole` [rows, 3 * columns], and the
/// sums over rows of the whole into `sums`.
void launch_concatenate(cudaStream_t stream, Element element, Parts parts, Shape part, void* whole,
                        float* partials, void* sums);

/// Number of columns that layer norm's kernels can hold.
inline constexpr std::int64_t kMostNormColumns = 12288;

/// Arguments of sum = a + residual and normal = (sum - mean) * inverse_deviation * weight + offset.
/// The norm is that of the rounded sum. Where `a` is null, sum is residual and is not written.
struct AddLayerNorm {
  const void *a, *residual, *weight, *offset;
  float epsilon;
  void *sum, *normal;
  float *mean, *inverse_deviation;  ///< [rows]
};
void launch_add_layer_norm(cudaStream_t stream, Element element, const AddLayerNorm& arguments,
                           Shape shape);

/// Arguments of grad_x = (gradient through the norm of x) + grad_residual, which may be null. Sums
/// over rows go to grad_weight, grad_offset and, where it is not null, grad_bias = sum of grad_x.
struct LayerNormBackward {
  const void *grad_normal, *grad_residual, *x, *weight;
  const float *mean, *inverse_deviation;
  void *grad_x, *grad_weight, *grad_offset, *grad_bias;
};
/// `partials` has 3 * blocks * columns elements.
void launch_layer_norm_backward(cudaStream_t stream, Element element,
                                const LayerNormBackward& arguments, Shape shape, int blocks,
                                float* partials);

/// Writes each row's -log softmax(logits)[target] to `losses`; NaN where the target is no column.
/// With `with_gradients`, logits become softmax less one at the target. Rows are `stride` elements
/// apart, a multiple of 8. Columns from shape.columns on stay as they are.
void launch_cross_entropy(cudaStream_t stream, Element element, void* logits, Shape shape,
                          std::int64_t stride, const std::int64_t* targets, bool with_gradients,
                          float* losses);

}  // namespace athanor::cuda
