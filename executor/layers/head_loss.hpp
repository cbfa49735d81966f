// SPDX-License-Identifier: Apache-2.0
// The projection to the vocabulary and the loss in one, some rows at a time.
#pragma once

#include "executor/layers/packing.hpp"

#include <torch/types.h>

#include <optional>

namespace athanor {

/// Returns the mean cross-entropy of the next token, an fp32 scalar. `hidden` is [batch, sequence,
/// width], `weight` [vocabulary, width], `targets` int64 [batch, sequence]. The logits of all rows
/// never exist at once: with autograd on, forward computes both gradients block by block, and
/// backward only scales them. In bf16 the weight's gradient is rounded once per block of rows.
/// With `packing`, returns the sum over the targets that are learnt divided by `mean_targets`.
[[nodiscard]] torch::Tensor next_token_loss(const torch::Tensor& hidden,
                                            const torch::Tensor& weight,
                                            const torch::Tensor& targets,
                                            const std::optional<Packing>& packing = std::nullopt);

/// Returns the same loss from `logits` [batch, sequence, vocabulary] that exist already.
[[nodiscard]] torch::Tensor loss_of_logits(const torch::Tensor& logits,
                                           const torch::Tensor& targets,
                                           const std::optional<Packing>& packing = std::nullopt);

}  // namespace athanor
