// SPDX-License-Identifier: Apache-2.0
// Misses of a cache under Belady's rule, which evicts the block whose next use is farthest.
#pragma once

#include <cstdint>
#include <vector>

namespace athanor {

/// Returns the misses of a cache of `num_blocks` blocks, empty at first, on a trace of sets of
/// block numbers. All blocks of a set have to be there at once. No set may hold a block twice, nor
/// more than `num_blocks` blocks.
[[nodiscard]] std::int64_t belady_misses(const std::vector<std::vector<int>>& trace,
                                         std::int64_t num_blocks);

}  // namespace athanor
