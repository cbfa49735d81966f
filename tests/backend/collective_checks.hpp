// SPDX-License-Identifier: Apache-2.0
// Every collective against values that each rank works out by itself. They return what they find,
// since Catch2's assertions belong to one thread.
#pragma once

#include "executor/backend/collectives.hpp"

#include <cstdint>

namespace athanor::test {

[[nodiscard]] bool gathers_all(Collectives& ranks, std::int64_t part);
/// Rank a sends b the bytes 16 a + b.
[[nodiscard]] bool sends_all_to_all(Collectives& ranks, std::int64_t part);
[[nodiscard]] bool scatters_sums(Collectives& ranks, std::int64_t part);
[[nodiscard]] bool sums_everywhere(Collectives& ranks, std::int64_t elements);
[[nodiscard]] bool sums_bfloat16(Collectives& ranks, std::int64_t elements);
/// All of them, with parts in whole cache lines and in bytes, below and above eager limits.
[[nodiscard]] bool all_collectives_work(Collectives& ranks);

}  // namespace athanor::test
