// SPDX-License-Identifier: Apache-2.0
// Kernels under a power limit: closed forms, an independent simulation, and a GPU's on/off
// patterns.
#include "sim/bounds/bounds.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/device_power.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "tests/engine/programs.hpp"
#include "tests/engine/reference_replay.hpp"
#include "tests/support/serial_seconds.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using test::plain_platform;
using test::ProgramBuilder;

constexpr double kRounding = 1e-9;

/// Returns a model with 100 W idle and a limit of 500 W. Throttled kernels of 900 W run at 400 W
/// above idle, half of their power draw, at speed 1/2^(1/2).
PowerModel half_power(Seconds window) {
  PowerModel power;
  power.idle_watts = 100;
  power.limits = {{500, window}};
  return power;
}

PowerDraw kernel_draw() { return {.seconds = 1, .watts = 800, .exponent = 2}; }

Platform limited_platform(const PowerModel& power, std::vector<ContentionSample> contention = {}) {
  Platform platform = plain_platform();
  platform.power = power;
  platform.contention = std::move(contention);
  return platform;
}

}  // namespace

TEST_CASE(
    "an empty budget throttles a kernel; a full one lets it run until the mean power is the "
    "limit") {
  DevicePower device(half_power(0.2));
  device.start(Lane::Compute, kernel_draw());
  CHECK_THAT(device.speed(), WithinRel(std::sqrt(0.5), kRounding));
  CHECK_THAT(device.watts(), WithinRel(500, kRounding));
  CHECK(std::isinf(device.until_change()));
  device.pass(2);
  CHECK_THAT(device.joules(), WithinRel(1000, kRounding));
  device.stop(Lane::Compute);
  CHECK(device.watts() == 100);
  device.pass(0.1);  // half of the window
  CHECK_THAT(device.levels().front(), WithinRel(1 - std::exp(-0.5), kRounding));
  device.pass(10);
  CHECK_THAT(device.levels().front(), WithinRel(1, kRounding));
  device.start(Lane::Compute, kernel_draw());
  CHECK(device.speed() == 1);
  CHECK_THAT(device.until_change(), WithinRel(0.2 * std::log(2), kRounding));
  device.pass(device.until_change());
  CHECK_THAT(device.speed(), WithinRel(std::sqrt(0.5), kRounding));
}

TEST_CASE("a memory-bound kernel stays below the limit, and copies use the budget up") {
  DevicePower device(half_power(0.2));
  device.start(Lane::Compute, {.seconds = 1, .watts = 300, .exponent = 0});
  CHECK(device.speed() == 1);
  device.pass(10);
  CHECK_THAT(device.levels().front(), WithinRel(0.25, kRounding));
  device.start(Lane::H2D, {.seconds = 1, .watts = 200, .exponent = 0});
  CHECK_THAT(device.until_change(), WithinRel(0.2 * std::log(2), kRounding));
  CHECK_THAT(device.watts(), WithinRel(600, kRounding));
}

TEST_CASE(
    "with an empty budget all lanes together draw its limit; with a full one they draw their sum") {
  DevicePower device(half_power(0.2));
  device.start(Lane::Compute, kernel_draw());
  device.start(Lane::Collective, {.seconds = 1, .watts = 200});
  CHECK(device.watts() == 500);
  CHECK_THAT(device.speed(), WithinRel(std::sqrt(0.5), kRounding));
  device.stop(Lane::Compute);
  CHECK(device.watts() == 300);
  device.pass(1);
  device.start(Lane::Compute, kernel_draw());
  CHECK(device.watts() == 1100);
}

TEST_CASE("the lower of two limits holds in the end") {
  PowerModel power = half_power(0.4);
  power.limits.push_back({700, 0.1});
  DevicePower device(power);
  device.pass(10);  // idle: both budgets are full
  device.start(Lane::Compute, kernel_draw());
  CHECK(device.speed() == 1);
  const Seconds first = 0.1 * std::log(4);  // until the mean is 600 W of 800 W above idle
  CHECK_THAT(device.until_change(), WithinRel(first, kRounding));
  device.pass(device.until_change());
  CHECK_THAT(device.watts(), WithinRel(700, kRounding));
  const double mean = 800 * (1 - std::exp(-first / 0.4));
  CHECK_THAT(device.until_change(), WithinRel(0.4 * std::log((600 - mean) / 200), kRounding));
  device.pass(device.until_change());
  CHECK_THAT(device.watts(), WithinRel(500, kRounding));
}

TEST_CASE("a step without pauses takes what the profile measured under the limit") {
  ProgramBuilder builder;
  for (int i = 0; i < 5; ++i) builder.kernel(1e-3, 1.25e-3, 900);
  const Platform platform = limited_platform(half_power(0.04));
  const Timeline timeline = Engine(platform, 1).simulate(builder.program());
  CHECK_THAT(timeline.step_seconds, WithinRel(6.25e-3, kRounding));
  CHECK_THAT(timeline.step_joules, WithinRel(500 * 6.25e-3, kRounding));
  CHECK_THAT(lower_bound_seconds(builder.program(), platform), WithinRel(6.25e-3, kRounding));
}

TEST_CASE("a slower device stretches throttled kernels, and leaves unthrottled ones as they are") {
  ProgramBuilder builder;
  const std::int32_t kernel = builder.kernel(1e-3, 1.25e-3, 900);
  Platform platform = limited_platform(half_power(0.04));
  platform.matmul_flops_per_second = 1e14;
  Program program = builder.program();
  program.matmul_flops_per_second = 1.1e14;
  CHECK_THAT(Engine(platform, 1).simulate(program).step_seconds, WithinRel(1.375e-3, kRounding));
  CHECK_THAT(lower_bound_seconds(program, platform), WithinRel(1.375e-3, kRounding));
  builder.after_previous(kernel, builder.copy_in(1'500'000, {kernel}));
  program = builder.program();
  program.matmul_flops_per_second = 1.1e14;
  CHECK_THAT(Engine(platform, 1).simulate(program).step_seconds, WithinRel(2.5e-3, kRounding));
}

TEST_CASE("a step with pauses runs unthrottled") {
  ProgramBuilder builder;
  const std::int32_t kernel = builder.kernel(1e-3, 1.25e-3, 900);
  const std::int32_t copy = builder.copy_in(1'500'000, {kernel});
  builder.after_previous(kernel, copy);
  const Platform platform = limited_platform(half_power(0.04));
  const Timeline timeline = Engine(platform, 1).simulate(builder.program());
  CHECK_THAT(timeline.step_seconds, WithinRel(2.5e-3, kRounding));
  CHECK_THAT(timeline.step_joules, WithinRel(1e-3 * 900 + 1.5e-3 * 100, kRounding));
}

TEST_CASE("a timeline has the power of every rank, whose integral over a step is its energy") {
  ProgramBuilder builder;
  const std::int32_t kernel = builder.kernel(1e-3, 1.25e-3, 900);
  const std::int32_t copy = builder.copy_in(1'500'000, {kernel});
  builder.after_previous(kernel, copy);
  Program program = builder.program();
  program.world_size = 2;
  const Platform platform = limited_platform(half_power(0.04));
  const RankModel ranks = GENERATE(RankModel::Folded, RankModel::Each);
  Engine engine(platform, 2, ranks);
  const Timeline timeline = engine.simulate(program);
  for (const std::int32_t rank : {0, 1}) {
    std::vector<PowerLevel> levels;
    std::ranges::copy_if(timeline.power, std::back_inserter(levels),
                         [rank](const PowerLevel& level) { return level.rank == rank; });
    REQUIRE(levels.size() >= 4);
    // At its end the run is steady: the kernel is on and off in turn.
    const PowerLevel& on = levels[levels.size() - 4];
    const PowerLevel& off = levels[levels.size() - 3];
    const PowerLevel& next = levels[levels.size() - 2];
    const double joules = on.watts * (off.start - on.start) + off.watts * (next.start - off.start);
    CHECK_THAT(next.start - on.start, WithinRel(timeline.step_seconds, kRounding));
    CHECK_THAT(2 * joules, WithinRel(timeline.step_joules, kRounding));
  }
  CHECK(engine.simulate(program, {.record_intervals = false}).power.empty());
  std::ostringstream trace;
  write_trace(trace, program, timeline);
  const auto events = nlohmann::json::parse(trace.str()).at("traceEvents");
  CHECK(std::ranges::count(events, "power", [](const auto& event) {
          return event.at("name").template get<std::string>();
        }) == std::ssize(timeline.power));
}

TEST_CASE(
    "a kernel runs unthrottled until it has used the budget of a pause, and then at the limit") {
  ProgramBuilder builder;
  const std::int32_t kernel = builder.kernel(1, 1.25, 900);
  const std::int32_t copy = builder.copy_in(100'000'000, {kernel});  // 0.1 s, half of the window
  builder.after_previous(kernel, copy);
  const Platform platform = limited_platform(half_power(0.2));
  const Timeline timeline = Engine(platform, 1).simulate(builder.program());
  const Seconds at_full_clock = 0.2 * std::log(2 - std::exp(-0.5));
  CHECK_THAT(timeline.step_seconds,
             WithinRel(0.1 + at_full_clock + (1 - at_full_clock) * 1.25, kRounding));
  // The multiplier gives energy three eighths of a second's cost: a pause costs the rest.
  CHECK_THAT(lower_bound_seconds(builder.program(), platform),
             WithinRel(0.625 * 0.1 + 1.25, kRounding));
  CHECK(lower_bound_seconds(builder.program(), platform) <= timeline.step_seconds);
}

TEST_CASE("parts of a step leave each other no more energy than a budget holds") {
  constexpr Seconds kWindow = 0.2;
  ProgramBuilder builder;
  const std::int32_t kernel = builder.kernel(10, 12.5, 900);
  builder.after_previous(kernel, builder.copy_in(5'000'000'000, {kernel}));
  const Platform platform = limited_platform(half_power(kWindow));
  const Program program = builder.program();
  LagrangianBound copies;
  for (std::size_t i = 0; i < kEnergyMultipliers.size(); ++i)
    copies.at[i] = 5 * (1 - kEnergyMultipliers[i]);
  const LagrangianBound kernels = lagrangian_bound(
      power_draws(program, platform, solo_seconds(program, platform))[0], platform);
  LagrangianBound whole = copies;
  whole += kernels;
  CHECK(whole.most() <=
        15.625 * (1 + kRounding));  // as if the budget could hold all of a pause's energy
  const Seconds bound = consecutive_seconds(std::array{copies, kernels}, platform);
  // At the multiplier 3/8 kernels cost least when throttled, so that share of a window is carried.
  CHECK_THAT(bound, WithinRel(5 + 12.5 - 0.375 * kWindow, kRounding));
  CHECK(consecutive_seconds(std::array{kernels, copies}, platform) == bound);
  const Seconds simulated = Engine(platform, 1).simulate(program).step_seconds;
  CHECK(bound <= simulated);
  CHECK(simulated < 5 + 12.5);
  CHECK(consecutive_seconds(std::array{kernels, kernels}, platform) >= 25 * (1 - kRounding));
}

TEST_CASE("the bound includes how copies slow down kernels that a limit throttles") {
  ProgramBuilder builder;
  builder.kernel(1, 1.25, 900);
  builder.copy_in(500'000'000);
  PowerModel power = half_power(0.04);
  power.matmul_watts = 900;
  power.exponent = std::log(2) / std::log(1.25);
  const Platform platform =
      limited_platform(power, {{1, {{Lane::Compute, 1.5}, {Lane::H2D, 1.0}}}});
  // Copies run for half a second, in which kernels lose a third of their speed.
  const Seconds expected = 1.25 + 0.5 / 3;
  CHECK_THAT(Engine(platform, 1).simulate(builder.program()).step_seconds,
             WithinRel(expected, kRounding));
  CHECK_THAT(lower_bound_seconds(builder.program(), platform), WithinRel(expected, 1e-6));
}

TEST_CASE("the power draw of copies that kernels wait for is missing from the budget") {
  ProgramBuilder builder;
  const std::int32_t kernel = builder.kernel(1, 1.25, 900);
  builder.after_previous(kernel, builder.copy_in(1'000'000'000, {kernel}));
  PowerModel power = half_power(1e-3);
  power.lane_watts = {{Lane::H2D, 400}};
  power.matmul_watts = 900;
  power.exponent = std::log(2) / std::log(1.25);
  const Platform platform =  // together they take as long as one by one
      limited_platform(power, {{1, {{Lane::Compute, 2.0}, {Lane::H2D, 2.0}}}});
  const Seconds simulated = Engine(platform, 1).simulate(builder.program()).step_seconds;
  CHECK_THAT(simulated, WithinRel(1.25 + 1, kRounding));
  CHECK_THAT(lower_bound_seconds(builder.program(), platform), WithinRel(simulated, 1e-6));
}

namespace {

/// Returns a program whose phases have measured power or not.
Program random_powered_program(std::mt19937& random) {
  std::uniform_real_distribution<double> share(0, 1);
  Program program = test::random_program(random, 1, 12);
  for (Operation& op : program.operations) {
    if (op.lane != Lane::Compute || op.compute_seconds <= 0 || share(random) < 0.2) continue;
    op.unthrottled_seconds = op.compute_seconds * (0.6 + 0.4 * share(random));
    op.watts = 200 + 800 * share(random);
  }
  return program;
}

Platform random_powered_platform(std::mt19937& random) {
  std::uniform_real_distribution<double> share(0, 1);
  Platform platform = plain_platform();
  platform.contention = {{1, {{Lane::Compute, 1 + share(random)}}}};
  for (const Lane lane : {Lane::H2D, Lane::D2H, Lane::Collective, Lane::CpuAdam}) {
    if (share(random) < 0.3) continue;
    platform.contention.push_back(
        {1, {{Lane::Compute, 1 + share(random)}, {lane, 1 + share(random)}}});
  }
  PowerModel power;
  power.idle_watts = 100 * share(random);
  power.limits.push_back({400 + 200 * share(random), 2.5e-3 * share(random)});
  if (share(random) < 0.5) power.limits.push_back({650, 0.4e-3 * share(random)});
  power.lane_watts = {{Lane::Compute, 300}, {Lane::H2D, 20}, {Lane::Collective, 100}};
  power.matmul_watts = 1000 * share(random);
  power.exponent = 1.5 + share(random);
  platform.power = power;
  return platform;
}

}  // namespace

TEST_CASE(
    "on random programs under a power limit an independent simulator agrees, and bounds hold") {
  constexpr double kSettling = 2e-3;  // the engine stops when budgets repeat to a millionth
  int limited = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Program program = random_powered_program(random);
    Platform platform = random_powered_platform(random);
    const Seconds simulated = Engine(platform, 1).simulate(program, {.max_steps = 60}).step_seconds;
    CHECK_THAT(simulated, WithinRel(test::reference_period(program, platform), kSettling));
    CHECK(lower_bound_seconds(program, platform) <= simulated * (1 + kSettling));
    CHECK(simulated <= test::serial_seconds(program, platform) * (1 + kRounding));
    for (PowerLimit& limit : platform.power->limits) limit.watts = 1e5;
    const Seconds unlimited = Engine(platform, 1).simulate(program).step_seconds;
    CHECK(unlimited <= simulated * (1 + kSettling));
    limited += unlimited < simulated * 0.99 ? 1 : 0;
  }
  CHECK(limited > 5);
}

}  // namespace athanor
