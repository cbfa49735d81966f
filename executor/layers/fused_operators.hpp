// SPDX-License-Identifier: Apache-2.0
// Operators that take several memory-bound passes of a transformer block in one, and matrix
// products that cost the host little. LibTorch's dispatcher holds them as athanor::NAME. The CUDA
// plugin implements them for GPUs; elsewhere units use LibTorch's own operators. Matrices are
// [.., columns]; "rows" are all dimensions but the last. Results are rounded once from fp32 and
// have the same bits whenever they are computed again.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace athanor::fused {

/// Whether the operators take `x`: they are implemented where it is, and it is fp32 or bf16 with
/// rows of a multiple of 8 elements.
[[nodiscard]] bool available(const torch::Tensor& x);
/// Whether the operators with a norm take `x`: they also need rows of at most 12288 elements.
[[nodiscard]] bool norm_available(const torch::Tensor& x);

/// Returns left [m, k] times right [k, n], with `bias` [n] added before the sum is rounded.
[[nodiscard]] torch::Tensor product(const torch::Tensor& left, const torch::Tensor& right,
                                    const std::optional<torch::Tensor>& bias = std::nullopt);

/// Adds left [m, k] times right [k, n] to sum [m, n].
void add_product(torch::Tensor& sum, const torch::Tensor& left, const torch::Tensor& right);

/// Writes left [m, k] times right [k, n] to result [m, n], with `bias` [n] and `addend` [m, n]
/// added before the sum is rounded. Rows of `result` and `addend` may lie apart. `result` is not
/// read.
void product_into(torch::Tensor& result, const torch::Tensor& left, const torch::Tensor& right,
                  const std::optional<torch::Tensor>& bias,
                  const std::optional<torch::Tensor>& addend = std::nullopt);

/// Returns the sum of all rows, [columns].
[[nodiscard]] torch::Tensor column_sum(const torch::Tensor& x);

/// Applies an activation; athanor::activate lists the names.
[[nodiscard]] torch::Tensor activate(const torch::Tensor& x, const std::string& activation);

/// Returns the gradient of x and the sum of all its rows, the gradient of a bias that x contains.
[[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> activate_backward(
    const torch::Tensor& grad_y, const torch::Tensor& x, const std::string& activation);

/// Returns three matrices of one shape side by side, and the sum of all rows of the result.
[[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> concatenate(const torch::Tensor& first,
                                                                   const torch::Tensor& second,
                                                                   const torch::Tensor& third);

/// Statistics that layer norm keeps for its gradient, each fp32 [rows].
struct NormStatistics {
  torch::Tensor mean, inverse_deviation;
};

/// The sum x + residual and its layer norm. Without x, the norm of `residual` and no sum.
struct AddedNorm {
  torch::Tensor sum, normal;
  NormStatistics statistics;
};
[[nodiscard]] AddedNorm add_layer_norm(const std::optional<torch::Tensor>& x,
                                       const torch::Tensor& residual, const torch::Tensor& weight,
                                       const torch::Tensor& offset, double epsilon);

/// Gradients of the norm's input x (with `grad_residual` added), weight and offset. With `bias`,
/// also the sum of all rows of x's gradient.
struct NormGradients {
  torch::Tensor x, weight, offset, bias;
};
[[nodiscard]] NormGradients layer_norm_backward(const torch::Tensor& grad_normal,
                                                const std::optional<torch::Tensor>& grad_residual,
                                                const torch::Tensor& x,
                                                const NormStatistics& statistics,
                                                const torch::Tensor& weight, bool bias);

/// RMS norm (Zhang and Sennrich 2019) and what it keeps for its gradient, fp32 [rows].
struct RmsNormed {
  torch::Tensor normal, inverse_rms;
};
[[nodiscard]] RmsNormed rms_norm(const torch::Tensor& x, const torch::Tensor& weight,
                                 double epsilon);

/// Gradients of the norm's input x (with `grad_residual` added) and weight.
struct RmsNormGradients {
  torch::Tensor x, weight;
};
[[nodiscard]] RmsNormGradients rms_norm_backward(const torch::Tensor& grad_normal,
                                                 const std::optional<torch::Tensor>& grad_residual,
                                                 const torch::Tensor& x,
                                                 const torch::Tensor& inverse_rms,
                                                 const torch::Tensor& weight);

/// Returns activation(gate) * up, where rows of `packed` are gate and then up (Shazeer 2020).
[[nodiscard]] torch::Tensor gate(const torch::Tensor& packed, const std::string& activation);

/// Gradient of gate and up, and y = gate(packed), which need not be kept for it.
struct GateGradients {
  torch::Tensor packed, y;
};
[[nodiscard]] GateGradients gate_backward(const torch::Tensor& grad_y, const torch::Tensor& packed,
                                          const std::string& activation);

/// Returns the cross-entropy of each row, fp32 [rows]; NaN for a target outside the vocabulary.
/// With `with_gradients`, `logits` [rows, `vocabulary` or more] become the losses' gradient;
/// columns behind the vocabulary stay as they are. `targets` are int64 [rows].
[[nodiscard]] torch::Tensor cross_entropy_in_place(torch::Tensor& logits,
                                                   const torch::Tensor& targets,
                                                   std::int64_t vocabulary, bool with_gradients);

}  // namespace athanor::fused
