// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/torch_settings.hpp"

#include <ATen/Context.h>

namespace athanor::cuda {

void make_torch_deterministic() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Nobody reads what an operator has not written: no need to fill it.
  context.setDeterministicFillUninitializedMemory(false);
  context.setSDPUseCuDNN(false);
}

}  // namespace athanor::cuda
