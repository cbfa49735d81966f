// SPDX-License-Identifier: Apache-2.0
// Stands for cudnn_attention.cpp where cuDNN's headers were not found: cuDNN takes nothing.
#include "executor/cuda/operators/cudnn_attention.hpp"

#include <c10/util/Exception.h>

namespace athanor::cuda {

bool cudnn_takes(const AttentionInputs& /*inputs*/, std::int64_t /*most_workspace*/) {
  return false;
}

CudnnAttended cudnn_attention(const AttentionInputs& /*inputs*/) {
  TORCH_CHECK(false, "attention by cuDNN was not built");
}

void cudnn_attention_backward(const at::Tensor& /*grad_out*/, const AttentionInputs& /*inputs*/,
                              const CudnnAttended& /*attended*/, std::int64_t /*most_workspace*/,
                              const CudnnGradients& /*gradients*/) {
  TORCH_CHECK(false, "attention by cuDNN was not built");
}

}  // namespace athanor::cuda
