// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/belady.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <set>

namespace athanor {
namespace {

/// Fewest misses over every possible choice of what to evict.
std::int64_t fewest_misses(const std::vector<int>& trace, std::size_t position,
                           const std::set<int>& resident, std::size_t capacity) {
  if (position == trace.size()) return 0;
  const int block = trace[position];
  if (resident.contains(block)) return fewest_misses(trace, position + 1, resident, capacity);
  std::set<int> next = resident;
  next.insert(block);
  if (resident.size() < capacity) return 1 + fewest_misses(trace, position + 1, next, capacity);
  std::int64_t best = static_cast<std::int64_t>(trace.size());
  for (const int victim : resident) {
    std::set<int> after = next;
    after.erase(victim);
    best = std::min(best, fewest_misses(trace, position + 1, after, capacity));
  }
  return 1 + best;
}

}  // namespace

TEST_CASE("Belady's rule has the fewest misses of all rules") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int blocks = std::uniform_int_distribution<int>(1, 4)(random);
    const int capacity = std::uniform_int_distribution<int>(1, 3)(random);
    std::vector<int> trace(std::uniform_int_distribution<std::size_t>(0, 10)(random));
    for (int& block : trace) block = std::uniform_int_distribution<int>(0, blocks - 1)(random);
    REQUIRE(belady_misses(trace, capacity) ==
            fewest_misses(trace, 0, {}, static_cast<std::size_t>(capacity)));
  }
}

TEST_CASE("Forward and backward over n blocks miss 2n minus the slots, which the turn reuses") {
  const std::vector<int> there_and_back{0, 1, 2, 3, 4, 4, 3, 2, 1, 0};
  for (std::int64_t slots = 1; slots <= 5; ++slots) {
    CHECK(belady_misses(there_and_back, slots) == 10 - slots);
  }
}

}  // namespace athanor
