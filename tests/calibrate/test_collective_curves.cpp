// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/collective_curves.hpp"
#include "executor/backend/collectives_local.hpp"

#include <catch2/catch_test_macros.hpp>

namespace athanor {
namespace {

void check_equal(const Curve& a, const Curve& b) {
  REQUIRE(a.points.size() == b.points.size());
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    CHECK(a.points[i].size == b.points[i].size);
    CHECK(a.points[i].seconds == b.points[i].seconds);
    CHECK(a.points[i].spread == b.points[i].spread);
  }
}

TEST_CASE("one process measures the copies that stand for collectives, and they survive JSON") {
  const auto local = make_local_collectives();
  const StoppingRule rule{.min_repetitions = 2, .max_repetitions = 3};
  const CollectiveTimes times = measure_collectives(*local, {1, 1000, kMiB}, rule);
  REQUIRE(times.all_gather.points.size() == 3);
  CHECK(times.all_gather.points[0].size == 128);  // parts are whole multiples of 128 bytes
  CHECK(times.all_gather.points[2].size == kMiB);
  CHECK(times.all_reduce.points[2].seconds > 0);

  const CollectiveTimes back = parse_collective_times(to_json(times));
  check_equal(back.all_gather, times.all_gather);
  check_equal(back.reduce_scatter, times.reduce_scatter);
  check_equal(back.all_reduce, times.all_reduce);
  REQUIRE(times.all_to_all.points.size() == 3);
  check_equal(back.all_to_all, times.all_to_all);
}

}  // namespace
}  // namespace athanor
