// SPDX-License-Identifier: Apache-2.0
// Batches of random tokens, for profiling.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <functional>

namespace athanor {

/// Returns a source of batches of as many samples as it is asked for: equal ones whenever it is
/// asked.
[[nodiscard]] std::function<Batch(std::int64_t num_samples)> random_tokens(
    std::int64_t vocab_size, std::int64_t sequence_length);

}  // namespace athanor
