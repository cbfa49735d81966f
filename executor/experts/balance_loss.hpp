// SPDX-License-Identifier: Apache-2.0
// The loss that keeps experts equally busy (Fedus et al. 2021), as transformers adds it: over the
// tokens of all blocks at once. Blocks therefore pass on sums beside their activation, and the head
// computes the loss.
#pragma once

#include "executor/experts/routing.hpp"

#include <torch/types.h>

#include <cstdint>

namespace athanor {

/// An activation [batch, sequence, hidden], and what blocks before it say of their routing.
struct Routed {
  torch::Tensor hidden;
  /// Sums over blocks, [4 * experts]: of the parts of tokens that use each expert, and of mean
  /// probabilities. Each is a value and the rest that its rounding left, for bf16.
  torch::Tensor sums;
};

/// Returns both in one tensor [elements], as they go from unit to unit.
[[nodiscard]] torch::Tensor joined(const Routed& routed);
/// Takes a tensor that joined() made apart. `like` [batch, sequence] has the tokens.
[[nodiscard]] Routed parted(const torch::Tensor& joined, const torch::Tensor& like,
                            std::int64_t hidden);

/// Returns sums of no block.
[[nodiscard]] torch::Tensor no_sums(std::int64_t experts, const torch::Tensor& like);
/// Returns `sums` with those of one block's routing.
[[nodiscard]] torch::Tensor with_routing(const torch::Tensor& sums, const Routing& routing);

/// Returns the loss of `blocks` blocks' sums, an fp32 scalar: 1 for each choice of a token where
/// experts are equally busy.
[[nodiscard]] torch::Tensor balance_loss(const torch::Tensor& sums, std::int64_t blocks);

}  // namespace athanor
