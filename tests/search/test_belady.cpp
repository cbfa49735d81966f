// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/elixir/belady.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace athanor {
namespace {

using Trace = std::vector<std::vector<int>>;

/// Returns the fewest misses over every possible choice of evictions.
std::int64_t fewest_misses(const Trace& trace, std::size_t position, const std::set<int>& resident,
                           std::size_t capacity) {
  if (position == trace.size()) return 0;
  std::set<int> all = resident;
  all.insert(trace[position].begin(), trace[position].end());
  const auto missing = static_cast<std::int64_t>(all.size() - resident.size());
  if (all.size() <= capacity) return missing + fewest_misses(trace, position + 1, all, capacity);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (const int victim : resident) {
    if (std::ranges::find(trace[position], victim) != trace[position].end()) continue;
    std::set<int> fewer = resident;
    fewer.erase(victim);
    best = std::min(best, fewest_misses(trace, position, fewer, capacity));
  }
  return best;
}

}  // namespace

TEST_CASE("Belady's rule has the fewest misses of all rules") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int blocks = std::uniform_int_distribution<int>(1, 4)(random);
    const int capacity = std::uniform_int_distribution<int>(1, 3)(random);
    Trace trace(std::uniform_int_distribution<std::size_t>(0, 8)(random));
    for (std::vector<int>& used : trace) {
      used.resize(static_cast<std::size_t>(blocks));
      std::iota(used.begin(), used.end(), 0);
      std::ranges::shuffle(used, random);
      used.resize(std::uniform_int_distribution<std::size_t>(
          1, static_cast<std::size_t>(std::min(blocks, capacity)))(random));
    }
    REQUIRE(belady_misses(trace, capacity) ==
            fewest_misses(trace, 0, {}, static_cast<std::size_t>(capacity)));
  }
}

TEST_CASE("forward and backward over n blocks miss 2n minus the slots, which backward reuses") {
  const Trace there_and_back{{0}, {1}, {2}, {3}, {4}, {4}, {3}, {2}, {1}, {0}};
  for (std::int64_t slots = 1; slots <= 5; ++slots) {
    CHECK(belady_misses(there_and_back, slots) == 10 - slots);
  }
}

}  // namespace athanor
