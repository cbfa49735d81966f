// SPDX-License-Identifier: Apache-2.0
// Element types and devices, ours and LibTorch's.
#pragma once

#include "sim/base/quantities.hpp"

#include <torch/torch.h>

namespace athanor {

[[nodiscard]] constexpr torch::ScalarType torch_dtype(DataType dtype) noexcept {
  return dtype == DataType::Float32 ? torch::kFloat32 : torch::kBFloat16;
}

/// The host for -1, else that GPU.
[[nodiscard]] inline torch::Device torch_device(int index) {
  return index < 0 ? torch::Device(torch::kCPU)
                   : torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(index));
}

}  // namespace athanor
