// SPDX-License-Identifier: Apache-2.0
#include "executor/units/vector_math.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <mutex>

namespace athanor {

namespace {

using Function = torch::Tensor (*)(const torch::Tensor&);

/// The functions of ATen/cpu/vml.h that call oneMKL.
constexpr std::array<Function, 15> kFunctions{at::acos,  at::asin,   at::atan, at::cos, at::erf,
                                              at::erfc,  at::erfinv, at::exp,  at::log, at::log2,
                                              at::log10, at::sin,    at::sqrt, at::tan, at::tanh};

}  // namespace

void warm_up_vector_math() {
  static std::once_flag once;
  std::call_once(once, [] {
    const torch::NoGradGuard no_grad;
    for (const torch::ScalarType dtype : {torch::kFloat32, torch::kFloat64}) {
      const torch::Tensor one = torch::full({1}, 0.5, torch::TensorOptions().dtype(dtype));
      for (const Function function : kFunctions) (void)function(one);
    }
  });
}

}  // namespace athanor
