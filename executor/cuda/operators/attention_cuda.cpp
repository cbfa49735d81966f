// SPDX-License-Identifier: Apache-2.0
// athanor's attention (executor/layers/attention_operators.hpp) on GPUs: by cuDNN where it is
// faster, by LibTorch's flash attention elsewhere and for sequences of several documents.
#include "executor/cuda/operators/cudnn_attention.hpp"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace athanor::cuda {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

/// How flash attention is called: whole sequences, or documents one after another.
struct FlashCall {
  MaybeTensor ends;  ///< int32 [documents + 1]
  std::int64_t longest = 0;
  std::optional<std::int64_t> before;  ///< tokens before its own that a query sees

  FlashCall(const at::Tensor& query, std::int64_t window, at::IntArrayRef document_ends)
      : longest(query.size(1)) {
    if (window > 0 && window < query.size(1)) before = window - 1;
    if (document_ends.empty()) return;
    ends = at::tensor(document_ends, at::kInt).to(query.device());
    longest = 0;
    for (std::size_t i = 1; i < document_ends.size(); ++i) {
      longest = std::max(longest, document_ends[i] - document_ends[i - 1]);
    }
  }

  /// Views tensors as flash attention takes them: documents have no batch.
  [[nodiscard]] at::Tensor view(const at::Tensor& heads) const {
    return ends ? heads.flatten(0, 1) : heads;
  }
  [[nodiscard]] std::optional<std::int64_t> after() const {
    return before ? std::optional<std::int64_t>(0) : std::nullopt;
  }
};

std::tuple<at::Tensor, at::Tensor> flash_attention(const at::Tensor& query, const at::Tensor& key,
                                                   const at::Tensor& value, const FlashCall& call) {
  auto [out, log_sums, random_state, unused, mask] = at::_flash_attention_forward(
      call.view(query), call.view(key), call.view(value), call.ends, call.ends, call.longest,
      call.longest, /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false,
      /*scale=*/std::nullopt, call.before, call.after());
  return {out.view_as(query), log_sums};
}

bool takes_cudnn(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 std::int64_t window, at::IntArrayRef document_ends, std::int64_t most_workspace) {
  return document_ends.empty() && cudnn_takes({query, key, value, window}, most_workspace);
}

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value, std::int64_t window,
                                             at::IntArrayRef document_ends,
                                             std::int64_t most_workspace) {
  if (takes_cudnn(query, key, value, window, document_ends, most_workspace)) {
    const CudnnAttended result = cudnn_attention({query, key, value, window});
    return {result.out, result.log_sums};
  }
  return flash_attention(query, key, value, FlashCall(query, window, document_ends));
}

void attention_backward(const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value, const at::Tensor& out, const at::Tensor& log_sums,
                        std::int64_t window, at::IntArrayRef document_ends,
                        std::int64_t most_workspace, at::Tensor& grad_query, at::Tensor& grad_key,
                        at::Tensor& grad_value) {
  if (takes_cudnn(query, key, value, window, document_ends, most_workspace)) {
    return cudnn_attention_backward(grad_out, {query, key, value, window}, {out, log_sums},
                                    most_workspace, {grad_query, grad_key, grad_value});
  }
  const FlashCall call(query, window, document_ends);
  const at::Tensor random_state = at::empty({2}, query.options().dtype(at::kUInt64));
  const auto [of_query, of_key, of_value] = at::_flash_attention_backward(
      call.view(grad_out), call.view(query), call.view(key), call.view(value), call.view(out),
      log_sums, call.ends.value_or(at::Tensor()), call.ends.value_or(at::Tensor()), call.longest,
      call.longest, /*dropout_p=*/0.0, /*is_causal=*/true, random_state, random_state,
      /*scale=*/std::nullopt, call.before, call.after());
  grad_query.copy_(of_query.view_as(grad_query));
  grad_key.copy_(of_key.view_as(grad_key));
  grad_value.copy_(of_value.view_as(grad_value));
}

}  // namespace
}  // namespace athanor::cuda

TORCH_LIBRARY_IMPL(athanor, CUDA, library) {
  namespace operators = athanor::cuda;
  library.impl("attention", operators::attention);
  library.impl("attention_backward", operators::attention_backward);
}
