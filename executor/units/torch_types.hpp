// SPDX-License-Identifier: Apache-2.0
// Conversions of element types and devices to LibTorch's.
#pragma once

#include "sim/base/quantities.hpp"

#include <torch/types.h>

namespace athanor {

[[nodiscard]] constexpr torch::ScalarType torch_dtype(DataType dtype) noexcept {
  return dtype == DataType::Float32 ? torch::kFloat32 : torch::kBFloat16;
}

/// Returns the host for -1, or the GPU of that index.
[[nodiscard]] inline torch::Device torch_device(int index) {
  return index < 0 ? torch::Device(torch::kCPU)
                   : torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(index));
}

}  // namespace athanor
