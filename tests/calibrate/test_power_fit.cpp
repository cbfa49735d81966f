// SPDX-License-Identifier: Apache-2.0
// A power model from measurements that are simulated on one, so that the answer is known.
#include "calibrate/full_clock.hpp"
#include "calibrate/power_fit.hpp"
#include "sim/model/errors.hpp"
#include "tests/calibrate/limited_device.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

using test::LimitedDevice;

PowerMeasurements measurements(const LimitedDevice& device) {
  constexpr Seconds kOne = 1e-9, kSeconds = 1;
  PowerMeasurements measured{.seldom = device.bursts(kOne, 0.003, kSeconds),
                             .often = device.bursts(kOne, 0.0012, kSeconds),
                             .sustained = device.bursts(kSeconds, 0, kSeconds),
                             .settled_watts = device.limit_watts,
                             .limited = {}};
  for (const Seconds turn : {0.035, 0.08, 0.18}) {
    measured.limited.push_back(device.bursts(turn, turn, kSeconds));
  }
  return measured;
}

}  // namespace

TEST_CASE("a power model from kernels under a limit is the one that they ran under") {
  constexpr double kTicks = 1e-3;
  const LimitedDevice device{.window = GENERATE(0.02, 0.05, 0.12)};
  const PowerModel model = fit_power(measurements(device));
  CHECK_THAT(model.idle_watts, WithinRel(device.idle_watts, kTicks));
  CHECK_THAT(model.matmul_watts, WithinRel(device.full_watts, kTicks));
  CHECK_THAT(model.exponent, WithinRel(device.exponent, kTicks));
  REQUIRE(model.limits.size() == 1);
  CHECK(model.limits.front().watts == device.limit_watts);
  CHECK_THAT(model.limits.front().window, WithinRel(device.window, 0.01));
}

TEST_CASE("a device that never slows down has a limit that is never reached") {
  const PowerModel model = fit_power(measurements({.limit_watts = 900}));
  CHECK(model.exponent == 0);
  REQUIRE(model.limits.size() == 1);
  CHECK_THAT(model.limits.front().watts, WithinRel(900, 1e-3));
}

TEST_CASE("what cannot be a device's power is refused") {
  PowerMeasurements falling = measurements({});
  falling.often.watts = 100;
  CHECK_THROWS_AS(fit_power(falling), Error);
  PowerMeasurements few = measurements({});
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
