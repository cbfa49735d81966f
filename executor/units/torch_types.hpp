// SPDX-License-Identifier: Apache-2.0
// Element types, ours and LibTorch's.
#pragma once

#include "sim/model/quantities.hpp"

#include <torch/torch.h>

namespace athanor {

[[nodiscard]] constexpr torch::ScalarType torch_dtype(DataType dtype) noexcept {
  return dtype == DataType::Float32 ? torch::kFloat32 : torch::kBFloat16;
}

}  // namespace athanor
