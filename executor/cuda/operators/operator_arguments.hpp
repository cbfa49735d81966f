// SPDX-License-Identifier: Apache-2.0
// Tensors as the kernels of fused operators take them.
#pragma once

#include "executor/cuda/kernels/fused_kernels.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace athanor::cuda {

inline constexpr std::uintptr_t kAlignment = 16;

/// Returns `tensor`, or a copy, as kernels read it: contiguous and 16-byte aligned.
[[nodiscard]] inline at::Tensor readable(const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  const auto address = reinterpret_cast<std::uintptr_t>(contiguous.const_data_ptr());
  return address % kAlignment == 0 ? contiguous : contiguous.clone();
}

[[nodiscard]] inline Element element_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16,
              "fused operators take fp32 and bf16, not ", tensor.scalar_type());
  return tensor.scalar_type() == at::kFloat ? Element::Float32 : Element::BFloat16;
}

/// Returns a tensor's shape as a matrix. All dimensions but the last are rows.
[[nodiscard]] inline Shape shape_of(const at::Tensor& tensor) {
  const std::int64_t columns = tensor.size(-1);
  TORCH_CHECK(columns > 0 && columns % 8 == 0,
              "fused operators take rows of a multiple of 8, not of ", columns);
  return {tensor.numel() / columns, columns};
}

[[nodiscard]] inline ActivationFunction activation_of(std::string_view name) {
  if (name == "gelu_new") return ActivationFunction::GeluTanh;
  if (name == "gelu") return ActivationFunction::Gelu;
  if (name == "relu") return ActivationFunction::Relu;
  TORCH_CHECK(name == "silu", "unknown activation '", name, "'");
  return ActivationFunction::Silu;
}

[[nodiscard]] inline at::Tensor floats(const at::Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, like.options().dtype(at::kFloat));
}

[[nodiscard]] inline cudaStream_t current_stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

/// Number of blocks, as many as the GPU runs at once: each keeps its own sums.
[[nodiscard]] inline int norm_blocks(std::int64_t rows) {
  const std::int64_t most = 2 * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  return static_cast<int>(std::clamp<std::int64_t>(rows, 1, most));
}

}  // namespace athanor::cuda
