// SPDX-License-Identifier: Apache-2.0
// An energy counter that changes ten times a second, and moments between its changes.
#include "calibrate/bench/measure.hpp"
#include "calibrate/power/energy_watch.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using std::chrono::milliseconds;

}  // namespace

TEST_CASE("energy between changes of a counter is linear") {
  EnergyChanges changes;
  const Moment start{};
  for (int i = 0; i <= 50; ++i)
    changes.note(start + milliseconds(10 * i), 50.0 * std::floor(i / 10.0));
  CHECK_THAT(changes.joules(start + milliseconds(150), start + milliseconds(370)),
             WithinRel(110.0, 1e-9));
  CHECK_THAT(changes.joules(start + milliseconds(100), start + milliseconds(480)),
             WithinRel(190.0, 1e-9));
}

TEST_CASE("without a change before and after it an interval's energy is not known") {
  EnergyChanges changes;
  const Moment start{};
  for (int i = 0; i <= 30; ++i)
    changes.note(start + milliseconds(10 * i), 50.0 * std::floor(i / 10.0));
  CHECK_THROWS_AS(changes.joules(start + milliseconds(50), start + milliseconds(200)), Error);
  CHECK_THROWS_AS(changes.joules(start + milliseconds(150), start + milliseconds(301)), Error);
}

TEST_CASE("a watched counter gives mean power however rarely it changes") {
  constexpr double kWatts = 300;
  constexpr Seconds kEvery = 0.05, kInterval = 0.22;
  const Moment start = Moment::clock::now();
  const EnergyWatch watch([start]() -> std::optional<double> {
    return kWatts * kEvery * std::floor(seconds_between(start, Moment::clock::now()) / kEvery);
  });
  const auto wait = [&watch] { watch.until_change([] { sleep_for(1e-3); }); };
  wait();
  const Moment from = Moment::clock::now();
  sleep_for(kInterval);
  const Moment to = Moment::clock::now();
  wait();
  CHECK_THAT(watch.watts(from, to), WithinRel(kWatts, 0.05));
}

TEST_CASE("a counter that disappears while it is watched is an error") {
  std::atomic<int> reads = 0;
  const EnergyWatch watch([&]() -> std::optional<double> {
    if (++reads > 3) return std::nullopt;
    return reads;
  });
  const Moment from = Moment::clock::now();
  sleep_for(0.05);
  CHECK_THROWS_AS(watch.joules(from, Moment::clock::now()), Error);
}

}  // namespace athanor
