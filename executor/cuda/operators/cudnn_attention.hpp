// SPDX-License-Identifier: Apache-2.0
// Causal attention by cuDNN, forward and backward, on tensors of heads [batch, sequence, heads,
// head_dim] in bf16 wherever heads and tokens lie. Key heads may be fewer than query heads.
//
// Backward gives the same bits again only with a workspace that grows with the square of the
// sequence. Sequences and groups of heads are independent of each other, so it runs over slices of
// them whose workspace is at most a limit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace athanor::cuda {

/// Queries, keys and values, and the number of tokens that a query sees (0: all before it).
struct AttentionInputs {
  const at::Tensor &query, &key, &value;
  std::int64_t window = 0;
};

/// Whether cuDNN computes forward and backward of these shapes here, with a workspace of at most
/// `most_workspace` bytes. Both have to be the same library's: they share log_sums. Forward does
/// not know which kernels backward will be allowed, so the answer is that for deterministic ones.
[[nodiscard]] bool cudnn_takes(const AttentionInputs& inputs, std::int64_t most_workspace);

/// Result [batch, sequence, heads, head_dim], and log_sums fp32 [batch, heads, sequence, 1].
struct CudnnAttended {
  at::Tensor out, log_sums;
};
[[nodiscard]] CudnnAttended cudnn_attention(const AttentionInputs& inputs);

/// Gradients to write, of the inputs' shapes.
struct CudnnGradients {
  at::Tensor &query, &key, &value;
};
void cudnn_attention_backward(const at::Tensor& grad_out, const AttentionInputs& inputs,
                              const CudnnAttended& attended, std::int64_t most_workspace,
                              const CudnnGradients& gradients);

}  // namespace athanor::cuda
