// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/cores.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

namespace athanor {
namespace {

/// Returns the cores that the calling thread may run on.
std::vector<int> all_cores() { return some_cores(CPU_SETSIZE); }

}  // namespace

TEST_CASE("some cores are usable ones, all different, the first among them") {
  const std::vector<int> all = all_cores();
  REQUIRE_FALSE(all.empty());
  CHECK(some_cores(0).empty());
  CHECK(some_cores(1) == std::vector{all.front()});
  for (int most = 1; most <= static_cast<int>(all.size()) + 1; ++most) {
    const std::vector<int> some = some_cores(most);
    CHECK(some.size() == std::min<std::size_t>(static_cast<std::size_t>(most), all.size()));
    CHECK(std::ranges::includes(all, some));
    CHECK(std::ranges::adjacent_find(some) == some.end());
  }
}

TEST_CASE("a bound thread and those that it starts run on its core, and it alone is released") {
  const std::vector<int> all = all_cores();
  const int core = all.back();
  std::vector<int> started;
  std::optional<std::jthread> thread;
  {
    const CoreBinding binding(core);
    CHECK(all_cores() == std::vector{core});
    CHECK(sched_getcpu() == core);
    thread.emplace([&] { started = all_cores(); });
    const CoreBinding none(kAnyCore);
    CHECK(all_cores() == std::vector{core});
  }
  CHECK(all_cores() == all);
  thread->join();
  CHECK(started == std::vector{core});
}

}  // namespace athanor
