// SPDX-License-Identifier: Apache-2.0
// The parts of a llama block on devices with fused operators. Each keeps for backward what it must,
// and computes again what costs less than its memory: norms from their inputs, and the gated
// product from gate and up.
#pragma once

#include "executor/layers/attention_operators.hpp"
#include "executor/layers/packing.hpp"
#include "executor/layers/plain_layers.hpp"
#include "executor/layers/side_by_side.hpp"

#include <torch/types.h>

#include <optional>
#include <string>

namespace athanor {

/// The residual stream, and what a branch's first layers make of its norm, side by side.
struct Projected {
  torch::Tensor trunk, outputs;
};
/// Returns x and the products of norm(x). Backward adds both gradients to x in the pass through the
/// norm.
[[nodiscard]] Projected norm_and_project(const torch::Tensor& x, const RmsNorm& norm,
                                         const LayerGroup& layers);

/// Attention of a llama block but for its products.
struct RotaryAttention {
  fused::HeadShape heads;
  RotaryFrequencies angles;
  std::int64_t window = 0;                ///< tokens that a query sees; 0: all before it
  std::optional<fused::HeadNorms> norms;  ///< those of queries and keys (Qwen3)
  std::int64_t most_workspace = 0;        ///< bytes that attention's backward may take
  torch::Tensor sinks = {};               ///< [query_heads], or undefined (sink_attention.hpp)
};
/// Returns [batch, sequence, query_heads * head_dim]. `packed` has queries, keys and values side by
/// side. It is changed: the caller gives it up.
[[nodiscard]] torch::Tensor attend(const RotaryAttention& attention, const torch::Tensor& packed,
                                   const std::optional<Packing>& packing);

/// Returns residual + layer(x), rounded once.
[[nodiscard]] torch::Tensor add_projection(const torch::Tensor& residual, const Linear& layer,
                                           const torch::Tensor& x);

/// Returns residual + layer(activation(gate) * up), rounded once. `packed` has gate and up side by
/// side.
[[nodiscard]] torch::Tensor add_gated_projection(const torch::Tensor& residual, const Linear& layer,
                                                 const torch::Tensor& packed,
                                                 const std::string& activation);

}  // namespace athanor
