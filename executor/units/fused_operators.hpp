// SPDX-License-Identifier: Apache-2.0
// Operators that take several memory-bound passes of a transformer block in one, and matrix
// products that cost the host little. LibTorch's dispatcher holds them as athanor::NAME; the CUDA
// plugin implements them for GPUs, and where nobody does, units use LibTorch's own. Matrices are
// [.., columns]; "rows" are all dimensions but the last. Results are rounded once from fp32 and
// have the same bits whenever they are computed again.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace athanor::fused {

/// Whether the operators take `x`: they are implemented where it is, and it is fp32 or bf16 with
/// rows of a multiple of 8 elements.
[[nodiscard]] bool available(const torch::Tensor& x);
/// The same for those with a norm, which take rows of up to 12288 elements.
[[nodiscard]] bool norm_available(const torch::Tensor& x);

/// left [m, k] times right [k, n], with `bias` [n] added before the sum is rounded.
[[nodiscard]] torch::Tensor product(const torch::Tensor& left, const torch::Tensor& right,
                                    const std::optional<torch::Tensor>& bias = std::nullopt);

/// sum [m, n] += left [m, k] times right [k, n].
void add_product(torch::Tensor& sum, const torch::Tensor& left, const torch::Tensor& right);

/// The sum of all rows: [columns].
[[nodiscard]] torch::Tensor column_sum(const torch::Tensor& x);

/// See athanor::activate for the names.
[[nodiscard]] torch::Tensor activate(const torch::Tensor& x, const std::string& activation);

/// The gradient of x and the sum of all its rows: the gradient of a bias that is in x.
[[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> activate_backward(
    const torch::Tensor& grad_y, const torch::Tensor& x, const std::string& activation);

/// Three matrices of one shape side by side, and the sum of all rows of the result.
[[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> concatenate(const torch::Tensor& first,
                                                                   const torch::Tensor& second,
                                                                   const torch::Tensor& third);

/// What layer norm leaves for its gradient: fp32 [rows].
struct NormStatistics {
  torch::Tensor mean, inverse_deviation;
};

/// sum = x + residual and its layer norm. Without x: the norm of `residual`, and no sum.
struct AddedNorm {
  torch::Tensor sum, normal;
  NormStatistics statistics;
};
[[nodiscard]] AddedNorm add_layer_norm(const std::optional<torch::Tensor>& x,
                                       const torch::Tensor& residual, const torch::Tensor& weight,
                                       const torch::Tensor& offset, double epsilon);

/// Gradients of what `x`, the input of the norm, comes from: of x itself with `grad_residual`
/// added, of the norm's weight and offset, and with `bias` the sum of all rows of x's.
struct NormGradients {
  torch::Tensor x, weight, offset, bias;
};
[[nodiscard]] NormGradients layer_norm_backward(const torch::Tensor& grad_normal,
                                                const std::optional<torch::Tensor>& grad_residual,
                                                const torch::Tensor& x,
                                                const NormStatistics& statistics,
                                                const torch::Tensor& weight, bool bias);

/// Cross-entropy of each row, fp32 [rows]; NaN where a target is outside the vocabulary. `logits`
/// [rows, `vocabulary` or more] become the losses' gradient with `with_gradients`; columns behind
/// the vocabulary stay as they are. `targets` int64 [rows].
[[nodiscard]] torch::Tensor cross_entropy_in_place(torch::Tensor& logits,
                                                   const torch::Tensor& targets,
                                                   std::int64_t vocabulary, bool with_gradients);

}  // namespace athanor::fused
