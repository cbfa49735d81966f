// SPDX-License-Identifier: Apache-2.0
// Resources that ranks of one node share when the ranks do not run in step.
#include "sim/engine/simulated_machine.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <map>
#include <optional>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr int kFirst = static_cast<int>(Lane::H2D);  // on rank 0
constexpr int kSecond = kNumLanes + kFirst;          // on rank 1
constexpr int kDelay = kNumLanes + static_cast<int>(Lane::Compute);

/// Returns rates for copies at rate 1 through a bridge with capacity `per_rank` for each of two
/// ranks.
SharedRates bridge(double per_rank) {
  SharedRates rates;
  rates.rate[static_cast<std::size_t>(Lane::H2D)] = 1;
  rates.resources = {{SharedResource::Scope::Node, per_rank, {Lane::H2D}}};
  return rates;
}

/// Returns when each port's activity ended. Rank 0 copies from 0 on for 2 s, rank 1 from `delay`
/// on.
std::map<int, Seconds> copy_both(double per_rank, Seconds delay) {
  SimulatedMachine machine(bridge(per_rank), std::nullopt, 2, 2);
  std::map<int, Seconds> ends;
  const PowerDraw copy{.seconds = 2};
  machine.run(
      100,
      [&] {
        machine.start(kFirst, copy);
        machine.wait(kDelay, delay);
      },
      [&](int port) {
        ends[port] = machine.now();
        if (port == kDelay) machine.start(kSecond, copy);
      });
  return ends;
}

TEST_CASE("a rank has the node's shared resources to itself while the others are idle") {
  const auto ends = copy_both(0.5, 5);
  CHECK_THAT(ends.at(kFirst), WithinRel(2, 1e-12));
  CHECK_THAT(ends.at(kSecond), WithinRel(7, 1e-12));
}

TEST_CASE("an activity that runs alone shares from the moment when another starts") {
  const auto ends = copy_both(0.5, 1);
  CHECK_THAT(ends.at(kFirst), WithinRel(3, 1e-12));
  CHECK_THAT(ends.at(kSecond), WithinRel(4, 1e-12));
}

TEST_CASE("one rank alone can saturate its node's shared resource") {
  const auto ends = copy_both(0.25, 5);
  CHECK_THAT(ends.at(kFirst), WithinRel(4, 1e-12));
  CHECK_THAT(ends.at(kSecond), WithinRel(9, 1e-12));
  const auto together = copy_both(0.25, 2);
  CHECK_THAT(together.at(kFirst), WithinRel(6, 1e-12));
  CHECK_THAT(together.at(kSecond), WithinRel(8, 1e-12));
}

}  // namespace
}  // namespace athanor
