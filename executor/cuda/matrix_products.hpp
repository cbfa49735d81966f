// SPDX-License-Identifier: Apache-2.0
// bf16 matrix products by cuBLASLt with little work for the host. At every product LibTorch asks
// cuBLASLt for an algorithm and looks up its workspace, up to three times, for which it parses
// CUBLAS_WORKSPACE_CONFIG anew: ten times what launching takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace athanor::cuda {

/// left [m, k] times right [k, n], with `bias` [n] added to every row before the sum is rounded.
/// Other types than bf16, and matrices with neither rows nor columns in one piece, are LibTorch's
/// to multiply. Throws Error where cuBLASLt fails.
[[nodiscard]] at::Tensor product(const at::Tensor& left, const at::Tensor& right,
                                 const std::optional<at::Tensor>& bias);

/// sum [m, n] += left [m, k] times right [k, n], likewise.
void add_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right);

}  // namespace athanor::cuda
