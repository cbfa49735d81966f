// SPDX-License-Identifier: Apache-2.0
// A power model from measurements that are simulated on one, so that the answer is known.
#include "calibrate/full_clock.hpp"
#include "calibrate/power_fit.hpp"
#include "sim/model/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kIdle = 120, kFull = 900, kExponent = 2;
constexpr Seconds kProduct = 0.0014;

double speed_at(double watts) { return std::pow((watts - kIdle) / (kFull - kIdle), 1 / kExponent); }

KernelBursts paused(double share) {
  KernelBursts bursts{{}, share, kIdle + share * (kFull - kIdle)};
  for (int i = 0; i < 200; ++i) bursts.kernels.push_back({i * kProduct / share, kProduct});
  return bursts;
}

/// Full clock until `first`, then at 740 W until `second`, then at 700 W; every 17th is late.
PowerMeasurements measurements(Seconds first, Seconds second) {
  PowerMeasurements measured{paused(0.25), paused(0.5), {}, 700};
  Seconds time = 0;
  for (int i = 0; time < 4; ++i) {
    const double speed = time < first ? 1 : time < second ? speed_at(740) : speed_at(700);
    const Seconds seconds = kProduct / speed * (i % 17 == 16 ? 1.3 : 1);
    measured.ramp.kernels.push_back({time, seconds});
    time += seconds;
  }
  return measured;
}

}  // namespace

TEST_CASE("a ramp with one knee gives one limit") {
  const PowerModel model = fit_power(measurements(0.05, 0.05));
  CHECK_THAT(model.idle_watts, WithinRel(kIdle, 1e-9));
  CHECK_THAT(model.matmul_watts, WithinRel(kFull, 1e-9));
  CHECK_THAT(model.exponent, WithinRel(kExponent, 1e-6));
  REQUIRE(model.limits.size() == 1);
  CHECK_THAT(model.limits.front().watts, WithinRel(700, 1e-9));
  CHECK_THAT(model.limits.front().burst_joules, WithinRel(0.05 * 200, 0.08));
}

TEST_CASE("a ramp with two knees gives two limits") {
  const PowerModel model = fit_power(measurements(0.05, 0.8));
  REQUIRE(model.limits.size() == 2);
  CHECK_THAT(model.limits[0].watts, WithinRel(700, 1e-9));
  CHECK_THAT(model.limits[0].burst_joules, WithinRel(0.05 * 200 + 0.75 * 40, 0.05));
  CHECK_THAT(model.limits[1].watts, WithinRel(740, 1e-3));
  CHECK_THAT(model.limits[1].burst_joules, WithinRel(0.05 * 160, 0.08));
}

TEST_CASE("a device that never slows down has a limit that is never reached") {
  PowerMeasurements measured = measurements(10, 10);
  measured.settled_watts = kFull;
  const PowerModel model = fit_power(measured);
  CHECK(model.exponent == 0);
  REQUIRE(model.limits.size() == 1);
  CHECK(model.limits.front().watts >= kFull);
}

TEST_CASE("what cannot be a device's power is refused") {
  PowerMeasurements falling = measurements(0.05, 0.05);
  falling.often.watts = 100;
  CHECK_THROWS_AS(fit_power(falling), Error);
  PowerMeasurements few = measurements(0.05, 0.05);
  few.ramp.kernels.resize(50);
  CHECK_THROWS_AS(fit_power(few), Error);
}

TEST_CASE("times at full clock are taken over, and follow the largest micro-batch that has them") {
  const auto cost = [](std::int64_t micro_batch, Seconds seconds, Seconds full, double watts) {
    UnitCost result;
    result.unit_class = "block";
    result.micro_batch = micro_batch;
    for (const auto phase : kUnitPhases) {
      (result.*phase).seconds = seconds;
      (result.*phase).full_clock_seconds = full;
      (result.*phase).watts = watts;
    }
    return result;
  };
  std::vector<UnitCost> costs{cost(1, 1.0, 0, 0), cost(2, 2.0, 0, 0), cost(4, 4.0, 0, 0)};
  take_full_clock(costs[0], cost(1, 0.9, 1.1, 500));
  take_full_clock(costs[1], cost(2, 1.5, 1.5, 800));
  take_full_clock(costs[2], cost(4, 3.3, 0, 0));
  complete_full_clock(costs);
  CHECK(costs[0].backward.full_clock_seconds == 1.0);  // never above the sustained time
  CHECK(costs[0].backward.watts == 500);
  CHECK(costs[1].recompute.full_clock_seconds == 1.5);
  CHECK(costs[2].forward_keep.full_clock_seconds == 3.0);
  CHECK(costs[2].forward_keep.watts == 800);
}

}  // namespace athanor
