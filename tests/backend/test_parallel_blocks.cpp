// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/parallel_blocks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace athanor {
namespace {

TEST_CASE("blocks cover every element once") {
  const int threads = GENERATE(1, 2, 3, 8);
  const std::int64_t elements = GENERATE(0, 1, 16'384, 32'768, 100'001, 1'000'000);
  std::vector<unsigned char> visits(static_cast<std::size_t>(elements), 0);
  for (int repetition = 0; repetition < 3; ++repetition) {
    parallel_blocks(elements, threads, [&](std::int64_t begin, std::int64_t end) {
      std::for_each(visits.begin() + begin, visits.begin() + end, [](auto& visit) { ++visit; });
    });
  }
  REQUIRE(std::all_of(visits.begin(), visits.end(), [](auto visit) { return visit == 3; }));
}

TEST_CASE("a short range stays on the calling thread") {
  const auto caller = std::this_thread::get_id();
  parallel_blocks(100, 8,
                  [&](std::int64_t, std::int64_t) { CHECK(std::this_thread::get_id() == caller); });
}

TEST_CASE("each calling thread keeps its own helpers from call to call") {
  const auto threads_of_ten_calls = [] {
    std::mutex mutex;
    std::set<std::thread::id> ids;
    for (int call = 0; call < 10; ++call) {
      parallel_blocks(1 << 20, 3, [&](std::int64_t, std::int64_t) {
        const std::lock_guard lock(mutex);
        ids.insert(std::this_thread::get_id());
      });
    }
    return ids.size();
  };
  // Who is first takes the blocks, so not every helper must take part in ten calls.
  CHECK(threads_of_ten_calls() <= 3);
  std::jthread([&] { CHECK(threads_of_ten_calls() <= 3); }).join();
}

}  // namespace
}  // namespace athanor
