// SPDX-License-Identifier: Apache-2.0
// A power model from measurements that are simulated on one, so that the answer is known.
#include "calibrate/power/power_bursts.hpp"
#include "calibrate/power/power_fit.hpp"
#include "calibrate/power/unthrottled.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/calibrate/throttled_device.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

using test::ThrottledDevice;

PowerMeasurements measurements(const ThrottledDevice& device) {
  constexpr Seconds kSeconds = 1;
  return {.bursts = {device.bursts(0.045, 0.045, kSeconds), device.bursts(0.06, 0.18, kSeconds),
                     device.bursts(0.16, 0.05, kSeconds), device.bursts(0.25, 0.65, 3 * kSeconds),
                     device.bursts(0.5, 0.53, 3 * kSeconds)},
          .sustained = device.bursts(4 * kSeconds, 0, 4 * kSeconds)};
}

}  // namespace

TEST_CASE("a power model from kernels under a limit is the one that they ran under") {
  const ThrottledDevice device{.limits = {{700, GENERATE(0.02, 0.05, 0.12)}}};
  const PowerMeasurements measured = measurements(device);
  const PowerModel model = fit_power(measured);
  CHECK_THAT(model.idle_watts, WithinRel(device.idle_watts, 0.005));
  CHECK_THAT(model.matmul_watts, WithinRel(device.unthrottled_watts, 0.005));
  CHECK_THAT(model.exponent, WithinRel(device.exponent, 0.01));
  REQUIRE(model.limits.size() == 1);
  CHECK(model.limits.front().watts == device.limits.front().watts);
  CHECK_THAT(model.limits.front().window, WithinRel(device.limits.front().window, 0.02));
  CHECK(fit_errors(model, measured).seconds < 0.005);
  CHECK(fit_errors(model, measured).watts < 0.005);
}

TEST_CASE("two limits explain bursts that one does not, also bursts that were not measured") {
  const ThrottledDevice device{.limits = {{680, 0.3}, {740, 0.03}}};
  PowerMeasurements measured = measurements(device);
  const PowerModel model = fit_power(measured);
  REQUIRE(model.limits.size() == 2);
  CHECK(fit_errors(model, measured).seconds < 0.002);
  measured.bursts = {device.bursts(0.1, 0.1, 1), device.bursts(0.015, 0.005, 1),
                     device.bursts(0.75, 0.25, 3)};
  CHECK(fit_errors(model, measured).seconds < 0.005);
  CHECK(fit_errors(model, measured).watts < 0.005);
  PowerModel one = model;
  one.limits.pop_back();
  CHECK(fit_errors(one, measured).seconds > 0.02);
}

TEST_CASE("measured bursts of a GPU give the power model of its platform file") {
  const std::string folder = std::string(ATHANOR_SOURCE_DIR) + "/";
  struct Recorded {
    const char *lease, *platform;
    double seconds_error, watts_error;
  };
  const auto [lease, platform, seconds_error, watts_error] = GENERATE(
      Recorded{"2026-11-23-h200x1", "traces/records/2026-11-23-h200x1/platform.json", 0.01, 0.02},
      Recorded{"2026-11-23-h200x1-c", "traces/records/2026-11-23-h200x1-c/platform.json", 0.01,
               0.03},
      Recorded{"2026-11-24-h200x1", "traces/records/2026-11-24-h200x1/platform.json", 0.005, 0.02},
      Recorded{"2026-11-23-h100x1", "traces/records/2026-11-23-h100x1/platform.json", 0.01, 0.03},
      Recorded{"2026-11-24-h100x1", "traces/records/2026-11-24-h100x1/platform.json", 0.02, 0.02});
  const std::string file = folder + "traces/records/" + lease + "/power-bursts.json";
  const PowerMeasurements measured = parse_power_bursts(read_text_file(file), file);
  const PowerModel model = fit_power(measured);
  const auto recorded = read_platform(folder + platform).power.value();
  constexpr double kSame = 0.01;
  CHECK_THAT(model.idle_watts, WithinRel(recorded.idle_watts, kSame));
  CHECK_THAT(model.matmul_watts, WithinRel(recorded.matmul_watts, kSame));
  CHECK_THAT(model.exponent, WithinRel(recorded.exponent, kSame));
  REQUIRE(model.limits.size() == recorded.limits.size());
  for (std::size_t i = 0; i < model.limits.size(); ++i) {
    CHECK_THAT(model.limits[i].watts, WithinRel(recorded.limits[i].watts, kSame));
    CHECK_THAT(model.limits[i].window, WithinRel(recorded.limits[i].window, 5 * kSame));
  }
  CHECK(fit_errors(model, measured).seconds < seconds_error);
  CHECK(fit_errors(model, measured).watts < watts_error);
}

TEST_CASE("errors of a model that does not fit are reported") {
  const PowerMeasurements measured = measurements({});
  PowerModel model = fit_power(measured);
  model.idle_watts *= 1.5;
  CHECK(fit_errors(model, measured).watts > 0.05);
  model.limits.front().watts -= 60;
  CHECK(fit_errors(model, measured).seconds > 0.02);
}

TEST_CASE("a device that never slows down has a limit that is never reached") {
  const PowerModel model = fit_power(measurements({.limits = {{900, 0.05}}}));
  CHECK(model.exponent == 0);
  REQUIRE(model.limits.size() == 1);
  CHECK_THAT(model.limits.front().watts, WithinRel(900, 1e-3));
}

TEST_CASE("measurements that fit no device are refused") {
  PowerMeasurements falling = measurements({});
  for (KernelBursts& bursts : falling.bursts) bursts.watts = 1000 - 500 * bursts.running_share;
  CHECK_THROWS_AS(fit_power(falling), Error);
  PowerMeasurements few = measurements({});
  few.sustained.kernels.resize(50);
  CHECK_THROWS_AS(fit_power(few), Error);
}

TEST_CASE("unthrottled times are taken over, and follow the largest micro-batch that has them") {
  const auto cost = [](std::int64_t micro_batch, Seconds seconds, Seconds unthrottled,
                       double watts) {
    UnitCost result;
    result.unit_class = "block";
    result.micro_batch = micro_batch;
    for (const auto phase : kUnitPhases) {
      (result.*phase).seconds = seconds;
      (result.*phase).unthrottled_seconds = unthrottled;
      (result.*phase).watts = watts;
    }
    return result;
  };
  std::vector<UnitCost> costs{cost(1, 1.0, 0, 0), cost(2, 2.0, 0, 0), cost(4, 4.0, 0, 0)};
  measure_unthrottled(costs[0], cost(1, 0.9, 1.1, 500));
  measure_unthrottled(costs[1], cost(2, 1.5, 1.5, 800));
  measure_unthrottled(costs[2], cost(4, 3.3, 0, 0));
  complete_unthrottled(costs);
  CHECK(costs[0].backward.unthrottled_seconds == 1.0);  // never above the sustained time
  CHECK(costs[0].backward.watts == 500);
  CHECK(costs[1].recompute.unthrottled_seconds == 1.5);
  CHECK(costs[2].forward_keep.unthrottled_seconds == 3.0);
  CHECK(costs[2].forward_keep.watts == 800);
}

}  // namespace athanor
