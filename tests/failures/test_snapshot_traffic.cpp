// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/snapshot_traffic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>

namespace athanor::test {

using Catch::Matchers::WithinAbs;

TEST_CASE("a snapshot that fits in idle time stops nothing, and one that does not stops the rest") {
  const SnapshotTraffic fits{.step = 10, .copy = {2, 8}, .send = {3, 4}};
  CHECK(fits.blocking(1) == 0);
  CHECK_THAT(fits.spread(1), WithinAbs(7.5, 1e-12));  // the network is idle for 4 of 10 s
  const SnapshotTraffic misfit{.step = 10, .copy = {2, 8}, .send = {9, 4}};
  CHECK_THAT(misfit.blocking(1), WithinAbs(5, 1e-12));
  CHECK_THAT(misfit.blocking(2), WithinAbs(1, 1e-12));
  CHECK(misfit.blocking(3) == 0);
  CHECK_THAT(misfit.spread(1), WithinAbs(15, 1e-12));
  CHECK_THAT(misfit.spread(3), WithinAbs(22.5, 1e-12));
  CHECK(SnapshotTraffic{.step = 10, .copy = {}, .send = {}}.spread(1) == 0);
}

TEST_CASE("a link that is never idle gives all of its traffic to training") {
  const SnapshotTraffic busy{.step = 1, .copy = {}, .send = {30, 0}};
  CHECK(busy.blocking(100) == 30);
  // Every snapshot stops training for as long, and a failure wastes 3 / 2 intervals: half of one,
  // and another until the snapshot is whole. x / (x + 30) - 3 / 2 rate x is largest here:
  const double rate = 1e-5;
  const auto best = static_cast<double>(best_snapshot_steps(busy, rate, 100000));
  CHECK_THAT(best, WithinAbs(std::sqrt(30 / (1.5 * rate)) - 30, 1));
}

TEST_CASE("snapshots that fit are best in every step") {
  const SnapshotTraffic fits{.step = 62, .copy = {3, 60}, .send = {1.8, 20}};
  CHECK(best_snapshot_steps(fits, 1e-5, 1000) == 1);
  // Nine seconds fit in the idle time of three steps, and stop nothing then.
  const SnapshotTraffic misfit{.step = 10, .copy = {2, 8}, .send = {9, 4}};
  CHECK(best_snapshot_steps(misfit, 1e-5, 1000) == 3);
}

}  // namespace athanor::test
