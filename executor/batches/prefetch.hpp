// SPDX-License-Identifier: Apache-2.0
// Batches made ahead of their use.
#pragma once

#include "executor/batches/batch_source.hpp"

namespace athanor {

/// Returns a source with the same batches, which makes the next one in a thread of its own while
/// the last is used. The next one is guessed: as many samples, as far on as the last two calls are
/// apart. Another request is served as it comes. What making a batch throws is thrown when that
/// batch is asked for. `source` must be safe to call in another thread; two calls never overlap
/// where guesses come true. For a GPU, batches lie in page-locked memory, from which it copies
/// while the host goes on.
[[nodiscard]] BatchSource prefetched(BatchSource source, torch::Device device);

}  // namespace athanor
