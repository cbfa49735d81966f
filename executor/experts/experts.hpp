// SPDX-License-Identifier: Apache-2.0
// The experts of a mixture: gated perceptrons, each on the tokens that were sent to it.
#pragma once

#include "executor/experts/expert_operators.hpp"
#include "executor/experts/grouped_products.hpp"
#include "executor/experts/routing.hpp"

#include <torch/types.h>

#include <optional>

namespace athanor {

struct ExpertWeights {
  ExpertLayers gate_up;  ///< gate and up [inner, hidden] of each expert
  ExpertLayers down;     ///< [hidden, inner] of each expert; biases where gate_up has them
};

/// Returns for each token of x [tokens, hidden] the weighted sum of its experts' outputs, added in
/// the order of its choices. Keeps x, and gate and up of all rows, for backward. `by` is for tests;
/// without it, the device decides.
[[nodiscard]] torch::Tensor apply_experts(const torch::Tensor& x, const Routing& routing,
                                          const ExpertWeights& weights, const Gate& gate,
                                          std::optional<GroupedBy> by = std::nullopt);

}  // namespace athanor
