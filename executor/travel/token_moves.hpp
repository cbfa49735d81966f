// SPDX-License-Identifier: Apache-2.0
// Tokens become the rows that travel, and rows that came back become tokens again.
#pragma once

#include "executor/travel/token_slots.hpp"

#include <torch/types.h>

#include <cstdint>

namespace athanor {

/// Returns the row of each slot [slots, hidden], from tokens [tokens, hidden] of which each has
/// `choices` experts. A token's gradient is the sum of its rows', in the order of its choices.
[[nodiscard]] torch::Tensor depart(const torch::Tensor& tokens, const TokenSlots& slots,
                                   std::int64_t choices);

/// Returns for each token the sum of its rows [slots, hidden], each times its weight
/// [tokens, choices], in the order of its choices.
[[nodiscard]] torch::Tensor arrive(const torch::Tensor& rows, const torch::Tensor& weights,
                                   const TokenSlots& slots);

}  // namespace athanor
