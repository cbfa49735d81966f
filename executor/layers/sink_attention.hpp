// SPDX-License-Identifier: Apache-2.0
// Attention with sinks (Xiao et al. 2023; learnt ones in gpt_oss): each head has a score that no
// key has. It joins the softmax of every query, and what goes to it is lost.
//
// The output is that without sinks times exp(L - L'). L is the logarithm of a query's sum of
// exponentials over its keys, s the sink, and L' = log(exp(L) + exp(s)). The gradients of queries,
// keys and values are those that a kernel makes of this output and of L' in place of its own: both
// formulas are the same.
#pragma once

#include "executor/layers/attention_operators.hpp"
#include "executor/layers/packing.hpp"

#include <torch/types.h>

#include <cstdint>
#include <optional>

namespace athanor {

/// causal_attention() with `sinks` [query heads], by LibTorch's operators, a block of queries at a
/// time. It keeps its inputs and its output, and takes memory for as many rows of scores as a block
/// has queries: memory grows with the sequence and not with its square.
[[nodiscard]] torch::Tensor sink_attention(const torch::Tensor& query, const torch::Tensor& key,
                                           const torch::Tensor& value, const torch::Tensor& sinks,
                                           const std::optional<Packing>& packing,
                                           std::int64_t window);

/// Lets sinks join what fused::attention() has made, in place.
void join_sinks(const torch::Tensor& sinks, const fused::Attended& attended);

/// Returns the sinks' gradient; `attended` is as join_sinks() has left it. `grad_out` is of its
/// output's shape.
[[nodiscard]] torch::Tensor sink_gradients(const torch::Tensor& grad_out,
                                           const torch::Tensor& sinks,
                                           const fused::Attended& attended);

}  // namespace athanor
