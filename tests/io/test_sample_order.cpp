// SPDX-License-Identifier: Apache-2.0
#include "executor/data/sample_order.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

namespace athanor {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Returns the samples of one pass over `count` samples.
Numbers pass_of(const SampleOrder& order, std::int64_t pass, std::int64_t count) {
  Numbers samples;
  for (std::int64_t i = 0; i < count; ++i) samples.push_back(order.sample(pass * count + i, count));
  return samples;
}

Numbers sorted(Numbers numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

TEST_CASE("an order that is not shuffled leaves samples as they are, in every pass") {
  const SampleOrder order;
  CHECK(order.sample(0, 5) == 0);
  CHECK(order.sample(13, 5) == 13);
}

TEST_CASE("a shuffled pass has each sample once, and each pass and seed its own order") {
  const std::int64_t count = GENERATE(1, 2, 3, 63, 64, 65, 1000);
  Numbers all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  std::set<Numbers> orders;
  for (const std::uint64_t seed : {0U, 1U, 7U}) {
    for (std::int64_t pass = 0; pass < 4; ++pass) {
      const Numbers order = pass_of({true, seed}, pass, count);
      CHECK(sorted(order) == all);
      orders.insert(order);
    }
  }
  CAPTURE(count);
  if (count > 60) CHECK(orders.size() == 12);
}

TEST_CASE("a shuffled order moves samples evenly") {
  // The mean distance that a random order of n samples moves one is n / 3.
  constexpr std::int64_t kCount = 10'000;
  const Numbers order = pass_of({true, 3}, 0, kCount);
  double moved = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    moved += static_cast<double>(std::abs(order[static_cast<std::size_t>(i)] - i));
  }
  CHECK(std::abs(moved / kCount / kCount - 1.0 / 3) < 0.02);
}

}  // namespace athanor
