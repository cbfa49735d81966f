// SPDX-License-Identifier: Apache-2.0
// Splits an element-wise loop over host threads.
#pragma once

#include <cstdint>
#include <functional>

namespace athanor {

/// Calls `body(begin, end)` on blocks that cover [0, elements), on up to `threads` threads, the
/// calling one included, and returns when all are done. A thread that is free takes the next block.
/// Blocks start at multiples of 64 elements. A short range stays on the calling thread. The helpers
/// belong to the calling thread and live until it ends. `body` must not throw.
void parallel_blocks(std::int64_t elements, int threads,
                     const std::function<void(std::int64_t, std::int64_t)>& body);

/// Calls `body(task)` for every task from 0 to `tasks` - 1 in the same way. A thread that is free
/// takes the next task.
void parallel_tasks(std::int64_t tasks, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace athanor
