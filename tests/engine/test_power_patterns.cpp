// SPDX-License-Identifier: Apache-2.0
// Matrix products in on/off patterns on a GPU whose calibration has not seen them.
#include "sim/base/text_file.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

/// Shortest period for NVML's counter, which samples a GPU for some 25 of every 100 ms. Its figures
/// for patterns that are about as short, or whose period is a multiple, depend on their alignment.
constexpr Seconds kShortestForCounter = 0.1;
struct Measured {
  std::string name;
  double rate_tolerance = 0, power_tolerance = 0;
};
/// The first machines' idle power was read off a counter where an interval began and ended, and
/// came out between 91 and 140 W. Their rates say more than their power.
const Measured kMultiples{"2026-11-21-h200x1", 0.02, 0.12};
const Measured kWithoutBeat{"2026-11-22-h200x1-c", 0.031, 0.03};
const Measured kAnother{"2026-11-22-h200x1-d", 0.03, 0.05};
/// Three machines that were calibrated by bursts of several shares and lengths. One of their 36
/// powers is more than 3 % off, by 3.7 %. That pattern is also one of the bursts, and the two
/// measured it 2 % apart.
const Measured kBursts{"2026-11-23-h200x1", 0.025, 0.025};
const Measured kLong{"2026-11-23-h200x1-c", 0.025, 0.03};
const Measured kTwoLong{"2026-11-23-h200x2-b", 0.025, 0.04};
/// An H100 whose bursts do not tell the fitted windows of 0.07 and 0.005 s from windows of 0.30 and
/// 0.04 s. A second calibration gave the latter, with which rates are within 2.5 %.
const Measured kH100{"2026-11-23-h100x1", 0.037, 0.065};
/// Machines that were calibrated by bursts of up to half a second, which do tell them apart.
const Measured kHalf{"2026-11-24-h200x1", 0.026, 0.025};
const Measured kH100Half{"2026-11-24-h100x1", 0.026, 0.04};
const std::string kFolder = std::string(ATHANOR_SOURCE_DIR) + "/traces/records/";

/// Adds matrix products that took `on` seconds at `rate`, as a profile's phase.
std::int32_t add_products(test::ProgramBuilder& builder, const Platform& platform, Seconds on,
                          double rate) {
  const PowerModel& power = *platform.power;
  const double above_idle = power.matmul_watts - power.idle_watts;
  const double slowdown = std::pow(above_idle / sustained_watts(power), 1 / power.exponent);
  const Seconds full_clock = on * rate / power.matmul_flops_per_second;
  return builder.kernel(full_clock, full_clock * slowdown, power.matmul_watts);
}

}  // namespace

TEST_CASE("the rate in the on-phase and the mean power of measured on/off patterns are predicted") {
  const Measured measured = GENERATE(kMultiples, kWithoutBeat, kAnother, kBursts, kLong, kTwoLong,
                                     kH100, kHalf, kH100Half);
  const std::string folder = kFolder + measured.name + "/";
  const auto record = nlohmann::json::parse(read_text_file(folder + "power-patterns.json"));
  const Platform calibrated = read_platform(folder + record.at("platform").get<std::string>());
  REQUIRE(calibrated.power);
  Platform platform = test::plain_platform();
  PowerModel power = *calibrated.power;
  power.lane_watts.clear();  // the copy below stands for a pause
  platform.power = power;
  REQUIRE(record.at("patterns").size() >= 9);
  Engine engine(platform, 1);
  for (const auto& pattern : record.at("patterns")) {
    const double on = pattern.at("on_seconds"), period = pattern.at("period_seconds");
    const double rate = pattern.at("rate"), watts = pattern.at("watts");
    CAPTURE(double(pattern.at("share")), double(pattern.at("period")));
    test::ProgramBuilder builder;
    const std::int32_t products = add_products(builder, platform, on, rate);
    const auto pause = static_cast<Bytes>(std::llround((period - on) * 1e9));
    builder.after_previous(products, builder.copy_in(pause, {products}));
    const Timeline timeline = engine.simulate(builder.program(), {.max_steps = 100});
    const Seconds simulated_on = timeline.step_seconds - static_cast<double>(pause) / 1e9;
    CHECK_THAT(rate * on / simulated_on, WithinRel(rate, measured.rate_tolerance));
    if (period < kShortestForCounter) continue;
    CHECK_THAT(timeline.step_joules / timeline.step_seconds,
               WithinRel(watts, measured.power_tolerance));
  }
}

}  // namespace athanor
