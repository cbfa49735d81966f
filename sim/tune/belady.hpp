// SPDX-License-Identifier: Apache-2.0
// How many blocks a cache moves under Belady's rule, which evicts what is used again last.
#pragma once

#include <cstdint>
#include <vector>

namespace athanor {

/// Misses of a cache of `num_blocks` blocks, empty at first, on a cyclic-free trace of block
/// numbers.
[[nodiscard]] std::int64_t belady_misses(const std::vector<int>& trace, std::int64_t num_blocks);

}  // namespace athanor
