// SPDX-License-Identifier: Apache-2.0
// A power model from measurements that are simulated on one, so that the answer is known.
#include "calibrate/full_clock.hpp"
#include "calibrate/power_fit.hpp"
#include "sim/model/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
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

/// Kernels and pauses in turns of equal length under a limit of 700 W, in small steps.
KernelBursts turns(Seconds turn, Seconds window) {
  constexpr Seconds kTick = 2e-7;
  constexpr double kLimit = 700 - kIdle;
  KernelBursts bursts;
  double mean = kLimit;
  Seconds now = 0;
  const auto pass = [&](double draw) {
    mean += (draw - mean) * kTick / window;
    now += kTick;
  };
  for (Seconds begun = 0; begun < 1.5; begun += 2 * turn) {
    while (now < begun + turn) {
      const Seconds start = now;
      for (double done = 0; done < kProduct;) {
        const bool held = mean >= kLimit;
        done += kTick * (held ? speed_at(700) : 1);
        pass(held ? kLimit : kFull - kIdle);
      }
      bursts.kernels.push_back({start, now - start});
    }
    while (now < begun + 2 * turn) pass(0);
  }
  return bursts;
}

PowerMeasurements measurements(Seconds window) {
  PowerMeasurements measured{paused(0.25), paused(0.5), {}, 700, {}};
  for (int i = 0; i < 1500; ++i) {
    const Seconds seconds = kProduct / (i < 30 ? 1 : speed_at(700));
    measured.sustained.kernels.push_back({i * kProduct / speed_at(700), seconds});
  }
  for (const Seconds turn : {0.035, 0.08, 0.18}) measured.limited.push_back(turns(turn, window));
  return measured;
}

}  // namespace

TEST_CASE("a power model from kernels under a limit is the one that they ran under") {
  const Seconds window = GENERATE(0.02, 0.05, 0.12);
  const PowerModel model = fit_power(measurements(window));
  CHECK_THAT(model.idle_watts, WithinRel(kIdle, 1e-9));
  CHECK_THAT(model.matmul_watts, WithinRel(kFull, 1e-9));
  CHECK_THAT(model.exponent, WithinRel(kExponent, 1e-6));
  REQUIRE(model.limits.size() == 1);
  CHECK_THAT(model.limits.front().watts, WithinRel(700, 1e-9));
  CHECK_THAT(model.limits.front().window, WithinRel(window, 0.01));
}

TEST_CASE("a device that never slows down has a limit that is never reached") {
  PowerMeasurements measured = measurements(0.05);
  measured.sustained = paused(1);
  measured.settled_watts = kFull;
  const PowerModel model = fit_power(measured);
  CHECK(model.exponent == 0);
  REQUIRE(model.limits.size() == 1);
  CHECK(model.limits.front().watts >= kFull);
}

TEST_CASE("what cannot be a device's power is refused") {
  PowerMeasurements falling = measurements(0.05);
  falling.often.watts = 100;
  CHECK_THROWS_AS(fit_power(falling), Error);
  PowerMeasurements few = measurements(0.05);
  few.sustained.kernels.resize(50);
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
