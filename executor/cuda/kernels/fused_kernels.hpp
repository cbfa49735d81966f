// SPDX-License-Identifier: Apache-2.0
// Launchers of the kernels that take several memory-bound operators of a unit in one pass. Matrices
// are [rows, columns], row after row, with columns a multiple of 8 and 16-byte aligned. Everything
// is computed in fp32 and rounded once. Only the shape decides the order in which rows are summed,
// and for norms the number of the GPU's processors, too.
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

/// Arguments of normal = x * inverse_rms * weight, with inverse_rms = 1 / sqrt(mean(x^2) +
/// epsilon).
struct RmsNorm {
  const void *x, *weight;
  float epsilon;
  void* normal;
  float* inverse_rms;  ///< [rows]
};
/// Rows have at most kMostNormColumns columns.
void launch_rms_norm(cudaStream_t stream, Element element, const RmsNorm& arguments, Shape shape);

/// Arguments of grad_x = (gradient through the norm of x) + grad_residual, which may be null. The
/// sums over rows go to grad_weight.
struct RmsNormBackward {
  const void *grad_normal, *grad_residual, *x, *weight;
  const float* inverse_rms;
  void *grad_x, *grad_weight;
};
/// `partials` has blocks * columns elements.
void launch_rms_norm_backward(cudaStream_t stream, Element element,
                              const RmsNormBackward& arguments, Shape shape, int blocks,
                              float* partials);

/// Computes y = activation(gate) * up of `shape`, where rows of `packed` are gate and then up.
void launch_gate(cudaStream_t stream, Element element, ActivationFunction activation,
                 const void* packed, Shape shape, void* y);

/// Arguments of grad_packed, the gradient of gate and up, and of y, which forward did not keep.
struct GateBackward {
  const void *grad_y, *packed;
  void *grad_packed, *y;
};
void launch_gate_backward(cudaStream_t stream, Element element, ActivationFunction activation,
                          const GateBackward& arguments, Shape shape);

/// Writes the inverse of a permutation of `count` numbers.
void launch_inverse_permutation(cudaStream_t stream, const std::int64_t* permutation,
                                std::int64_t count, std::int64_t* inverse);

/// Copies each token of x, which has the shape `tokens`, to its rows of `to`: choice i of token t
/// is row rows[t * choices + i].
void launch_rows_of_tokens(cudaStream_t stream, Element element, const void* x, Shape tokens,
                           const std::int64_t* rows, int choices, void* to);

/// Writes for each token the sum of its rows of x to `sums`, which has the shape `tokens`. Each is
/// multiplied by its weight [tokens, choices] where `weights` is not null.
void launch_sum_rows(cudaStream_t stream, Element element, const void* x, const std::int64_t* rows,
                     int choices, const void* weights, Shape tokens, void* sums);

/// Arguments of the gradient of y = weight * activation(gate) * up, where `grad_y` is that of
/// y / weight. A row's weight is weights[pairs[row]]. `grad_y` becomes y.
struct WeightedGateBackward {
  void* grad_y;
  const void *packed, *weights;
  const std::int64_t* pairs;
  void* grad_packed;
  float* grad_weights;  ///< at pairs[row]
};
/// `shape` is that of y.
void launch_weighted_gate_backward(cudaStream_t stream, Element element,
                                   ActivationFunction activation,
                                   const WeightedGateBackward& arguments, Shape shape);

inline constexpr int kMostFrequencies = 128;

/// Rotation of the first `heads` heads of each row by position times frequency. Cosines and sines
/// are multiplied by `scale` and rounded to the elements' type.
struct Rotation {
  float frequencies[kMostFrequencies];  ///< [head_dim / 2]
  float scale;
  int head_dim;  ///< a multiple of 16, at most 2 * kMostFrequencies
  int heads;
  std::int64_t sequence;          ///< a row's position is its number modulo this
  const std::int64_t* positions;  ///< [rows], or null
};
/// Rotates in place. Rows are `stride` elements apart. `back` rotates by the negative angles, which
/// is the gradient.
void launch_rotate(cudaStream_t stream, Element element, const Rotation& rotation, void* x,
                   std::int64_t stride, std::int64_t rows, bool back);

/// RMS norms of single heads: the first `query_heads` have one weight, the others another. The
/// elements of a head, divided by 16, are a power of two.
struct HeadNorms {
  const void *query_weight, *key_weight;  ///< [head_dim]
  int query_heads;
  float epsilon;
};
/// Writes the normalized and rotated heads of `from` to `to` [rows, heads * head_dim].
void launch_norm_and_rotate(cudaStream_t stream, Element element, const Rotation& rotation,
                            const HeadNorms& norms, const void* from, std::int64_t from_stride,
                            std::int64_t rows, void* to);

/// Arguments of a gradient in place: that of what launch_norm_and_rotate() wrote becomes that of
/// the heads `x`. Both have rows that lie `stride` elements apart.
struct HeadNormsBackward {
  const void* x;
  void* gradient;
  std::int64_t stride;
  void *grad_query_weight, *grad_key_weight;  ///< [head_dim]
};
/// `partials` has 2 * blocks * head_dim elements.
void launch_norm_and_rotate_backward(cudaStream_t stream, Element element, const Rotation& rotation,
                                     const HeadNorms& norms, const HeadNormsBackward& arguments,
                                     std::int64_t rows, int blocks, float* partials);

/// Writes each row's -log softmax(logits)[target] to `losses`; NaN where the target is no column.
/// With `with_gradients`, logits become softmax less one at the target. Rows are `stride` elements
/// apart, a multiple of 8. Columns from shape.columns on stay as they are.
void launch_cross_entropy(cudaStream_t stream, Element element, void* logits, Shape shape,
                          std::int64_t stride, const std::int64_t* targets, bool with_gradients,
                          float* losses);

}  // namespace athanor::cuda
