// SPDX-License-Identifier: Apache-2.0
// bf16 matrix products by cuBLASLt with little work for the host. At every product, LibTorch asks
// cuBLASLt for an algorithm and looks up its workspace, up to three times, and parses
// CUBLAS_WORKSPACE_CONFIG anew for it. That takes ten times as long as launching.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace athanor::cuda {

/// Returns left [m, k] times right [k, n], with `bias` [n] added to every row before the sum is
/// rounded. LibTorch multiplies other types than bf16, and matrices with neither rows nor columns
/// in one piece. Throws Error where cuBLASLt fails.
[[nodiscard]] at::Tensor product(const at::Tensor& left, const at::Tensor& right,
                                 const std::optional<at::Tensor>& bias);

/// Adds left [m, k] times right [k, n] to sum [m, n], by the rules of product().
void add_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right);

/// Writes left [m, k] times right [k, n], plus `bias` [n] and `addend` [m, n] where they are, to
/// result [m, n], rounded once where cuBLASLt multiplies.
void product_into(at::Tensor& result, const at::Tensor& left, const at::Tensor& right,
                  const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& addend);

}  // namespace athanor::cuda
