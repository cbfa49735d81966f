// SPDX-License-Identifier: Apache-2.0
// Batches of a token dataset.
#pragma once

#include "executor/io/tokens.hpp"
#include "executor/train/batch_source.hpp"

#include <cstdint>
#include <memory>

namespace athanor {

/// Returns a source of inputs and targets, int64 [count, sequence_length] each. It reads the
/// dataset from its start, over and over. Its sample i is the dataset's sample i + `shift`: a run
/// that goes on with another number of samples per step neither repeats nor skips one.
[[nodiscard]] BatchSource token_batches(std::shared_ptr<const TokenDataset> tokens,
                                        std::int64_t sequence_length, std::int64_t shift = 0);

}  // namespace athanor
