// SPDX-License-Identifier: Apache-2.0
// Measured contention in the engine: recorded machines give back their contention samples.
#include "sim/bounds/bounds.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/shared_rates.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/serial_seconds.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using test::find;
using test::plain_platform;
using test::ProgramBuilder;

constexpr double kRounding = 1e-9;
/// Bytes that a copy or a collective moves in one second on the plain platform.
constexpr Bytes kSecond = 1'000'000'000;

/// Adds an operation of `lane` that takes `seconds` alone on the plain platform; `adds`: Lane::D2H
/// adds.
std::int32_t add(ProgramBuilder& builder, Lane lane, Seconds seconds, bool adds = false) {
  const auto amount = static_cast<std::int64_t>(std::llround(seconds * 1e9));
  switch (lane) {
    case Lane::Compute:
      return builder.compute(seconds);
    case Lane::Collective:
      return builder.gather(amount);
    case Lane::H2D:
      return builder.copy_in(amount);
    case Lane::D2H:
      return adds ? builder.add_out(amount / 2) : builder.copy_out(amount);
    case Lane::CpuAdam:
      return builder.adam(amount);
    case Lane::NvmeRead:
      return builder.read_file(amount);
    case Lane::NvmeWrite:
      return builder.write_file(amount);
  }
  return -1;
}

/// Returns how many times as long `lane` takes while the others run all the time.
double simulated_slowdown(Lane lane, LaneSet running, Engine& engine, int ranks) {
  constexpr Seconds kShort = 0.1;
  constexpr Seconds kLong = 10;
  ProgramBuilder builder(ranks);
  const bool adds = (running & kD2HAdds) != 0;
  const std::int32_t measured = add(builder, lane, kShort, adds);
  for (const Lane other : kLanes) {
    if (other != lane && (running & lane_bit(other)) != 0) add(builder, other, kLong, adds);
  }
  const Interval interval = find(engine.simulate(builder.program()), measured);
  return (interval.end - interval.start) / kShort;
}
double simulated_slowdown(const ContentionSample& load, Lane lane, const Platform& machine) {
  Platform platform = plain_platform();
  platform.contention = machine.contention;
  Engine engine(platform, load.ranks);
  return simulated_slowdown(lane, lanes_of(load), engine, load.ranks);
}

Platform disturbed_platform() {
  Platform platform = plain_platform();
  platform.contention = {{1, {{Lane::H2D, 1.5}, {Lane::CpuAdam, 1.25}}}};
  return platform;
}

}  // namespace

TEST_CASE("recorded machines give back every contention sample that was measured on them") {
  const std::string name = GENERATE("platforms/h200x1.json", "platforms/h200x4.json",
                                    "traces/records/2026-11-22-h200x2-b/platform.json");
  const Platform machine = read_platform(std::string(ATHANOR_SOURCE_DIR) + "/" + name);
  REQUIRE(machine.contention.size() > 10);
  for (const ContentionSample& load : machine.contention) {
    for (const auto& [lane, slowdown] : load.slowdown) {
      CAPTURE(name, sample_name(load), lane_name(lane));
      CHECK_THAT(simulated_slowdown(load, lane, machine), WithinRel(std::max(1.0, slowdown), 1e-6));
    }
  }
}

TEST_CASE("an activity is slowed down while the other runs, and not before or after") {
  ProgramBuilder builder;
  const std::int32_t copy = builder.copy_in(3'000'000'000);
  const std::int32_t delay = builder.compute(1);
  const std::int32_t adam = builder.adam(1'000'000'000, {delay});
  builder.after_previous(delay, copy);
  Engine engine(disturbed_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, adam).end, WithinRel(1 + 1.25, kRounding));
  // The copy runs a second alone, 1.25 s at 2/3 of the rate, and the rest alone.
  const Seconds rest = 3 - 1 - 1.25 / 1.5;
  CHECK_THAT(find(timeline, copy).end, WithinRel(2.25 + rest, kRounding));
}

TEST_CASE("adding to sums in host memory contends as measured for it, and copying as before") {
  Platform platform = plain_platform();
  platform.contention = {{1, {{Lane::Compute, 1.1}, {Lane::D2H, 1.25}}},
                         {1, {{Lane::Compute, 1.5}, {Lane::D2H, 1.5}}, /*d2h_adds=*/true}};
  ProgramBuilder builder;
  const std::int32_t compute = builder.compute(10);
  const std::int32_t copy = builder.copy_out(1'000'000'000);
  const std::int32_t sum = builder.add_out(1'000'000'000, {copy});  // reads and writes: 2 s alone
  builder.after_previous(copy, compute);
  const Timeline timeline = Engine(platform, 1).simulate(builder.program());
  CHECK_THAT(find(timeline, copy).end, WithinRel(1.25, kRounding));
  CHECK_THAT(find(timeline, sum).end, WithinRel(1.25 + 2 * 1.5, kRounding));
  const double done = 1.25 / 1.1 + 3 / 1.5;
  CHECK_THAT(find(timeline, compute).end, WithinRel(4.25 + 10 - done, kRounding));

  platform.contention.pop_back();  // a machine on which adding was not measured
  const Timeline alike = Engine(platform, 1).simulate(builder.program());
  CHECK_THAT(find(alike, sum).end, WithinRel(1.25 + 2 * 1.25, kRounding));
}

TEST_CASE(
    "a reduction that adds on the device takes the kernel's time, too, and compute loses it") {
  // Elements are added in a second: AdamW moves 26 bytes each, adding 2 + 4 + 4.
  constexpr std::int64_t kElements = 26 * kSecond;
  Platform platform = plain_platform();
  platform.device_adam = {{{0, 0, 0}, {10e9, 1, 0}}};
  platform.reduce_scatter = {{1, {{{0, 0, 0}, {52e9, 0.25, 0}}}},  // a copy of the rank's part
                             {2, {{{0, 0, 0}, {104e9, 0.75, 0}}}}};
  const auto step = [&](std::vector<ContentionSample> contention, int ranks) {
    platform.contention = std::move(contention);
    ProgramBuilder builder(ranks);
    const std::int32_t compute = builder.compute(10);
    const std::int32_t reduce = builder.reduce(ranks * kElements, /*adds=*/true);
    builder.after_previous(reduce, compute);
    const Program program = builder.program();
    const Timeline timeline = Engine(platform, ranks).simulate(program);
    CHECK(lower_bound_seconds(program, platform) <= timeline.step_seconds * (1 + kRounding));
    return std::pair{find(timeline, reduce).end, find(timeline, compute).end};
  };
  using Ends = std::pair<Seconds, Seconds>;
  const auto check = [](const Ends& ends, Seconds reduce, Seconds compute) {
    CHECK_THAT(ends.first, WithinRel(reduce, kRounding));
    CHECK_THAT(ends.second, WithinRel(compute, kRounding));
  };
  SECTION("without contention both run alone") { check(step({}, 1), 1, 10); }
  SECTION("kernels take turns, and compute loses the second") {
    check(step({{1, {{Lane::Compute, 1}, {Lane::Collective, 1}}}, {1, {{Lane::H2D, 2}}}}, 1), 2,
          11);
  }
  SECTION("a slow collective leaves the kernel as little, and compute loses no more") {
    check(step({{1, {{Lane::Compute, 1}, {Lane::Collective, 4}}}}, 1), 4, 11);
  }
  SECTION("between ranks the copy of the part is in the curve, and only the kernel takes turns") {
    // 0.75 s with a copy of 0.25 s, in place of which the kernel takes 1 s: 0.5 + 1 s alone.
    check(step({{2, {{Lane::Compute, 1.25}, {Lane::Collective, 1.5}}}}, 2), 0.5 * 1.5 + 2,
          10 + (0.75 - 0.75 / 1.25) + 1);
  }
}

TEST_CASE("a reduction that keeps bf16 gradients takes what was measured") {
  ProgramBuilder builder;
  builder.reduce(kSecond / 2, /*adds=*/false);
  Program program = builder.program();
  program.gradient_dtype = program.dtype;
  CHECK(filling_seconds(program.operations[0], program, plain_platform()) == 0);
  CHECK_THAT(solo_seconds(program.operations[0], program, plain_platform()),
             WithinRel(1.0, kRounding));
  program.gradient_dtype = DataType::Float32;  // widened by a kernel: 6 bytes an element
  CHECK_THAT(filling_seconds(program.operations[0], program, plain_platform()),
             WithinRel(0.05 * 6 / 26, kRounding));
  program.operations[0].stored = 0;  // on its way to the host
  CHECK(filling_seconds(program.operations[0], program, plain_platform()) == 0);
}

TEST_CASE("CPU Adam slows the reading of a file down, and the bound includes it") {
  Platform platform = plain_platform();
  platform.contention = {{1, {{Lane::NvmeRead, 2.5}, {Lane::CpuAdam, 1.25}}}};
  ProgramBuilder builder;
  const std::int32_t read = builder.read_file(1'000'000'000);
  const std::int32_t adam = builder.adam(1'000'000'000);
  builder.after_previous(adam, read);
  const Timeline timeline = Engine(platform, 1).simulate(builder.program());
  CHECK_THAT(find(timeline, adam).end, WithinRel(1.25, kRounding));
  CHECK_THAT(find(timeline, read).end, WithinRel(1.25 + 1 - 1.25 / 2.5, kRounding));
  CHECK_THAT(lower_bound_seconds(builder.program(), platform), WithinRel(1.75, 1e-6));
}

TEST_CASE("one engine runs programs with few and with many threads, each with its own contention") {
  Platform platform = disturbed_platform();
  platform.host_cores = 4;
  platform.cpu_adam[4] = platform.cpu_adam[1];
  for (Curve::Point& point : platform.cpu_adam[4].points) point.seconds /= 4;
  ProgramBuilder builder;
  const std::int32_t copy = builder.copy_in(1'000'000'000);
  builder.adam(20'000'000'000);
  Program program = builder.program();
  Engine engine(platform, 1);
  for (const int threads : {4, 1, 4}) {
    program.cpu_adam_threads = threads;
    // A quarter of the speed alone, over the fourth root of the slowdown instead of all of it.
    const double share = threads == 4 ? 1 : 0.25 * std::pow(1.25, 0.75);
    const double expected = std::pow(1.5, share);
    CHECK_THAT(find(engine.simulate(program), copy).end, WithinRel(expected, kRounding));
  }
}

TEST_CASE("ranks that run a lane at once slow it down, whether folded or simulated each") {
  Platform platform = plain_platform();
  platform.contention = {{4, {{Lane::H2D, 2.0}}}, {4, {{Lane::H2D, 3.0}, {Lane::CpuAdam, 2.5}}}};
  ProgramBuilder builder(4);
  builder.copy_in(1'000'000'000);
  builder.adam(3'000'000'000);
  Seconds folded = 0;
  {
    Engine engine(platform, 4, RankModel::Folded);
    folded = engine.simulate(builder.program()).step_seconds;
  }
  Engine engine(platform, 4, RankModel::Each);
  CHECK(engine.simulate(builder.program()).step_seconds == folded);
}

TEST_CASE("a faster lane whose contention slows another down can make a step slower") {
  // Compute, a collective and compute follow each other, while Adam and then a copy run. The copy
  // slows kernels down, and slows nothing down while the collective runs.
  const auto step = [](Seconds adam) {
    Platform platform = plain_platform();
    platform.contention = {{1, {{Lane::Compute, 2}, {Lane::H2D, 2}}}};
    ProgramBuilder builder;
    const std::int32_t first = builder.compute(1);
    const std::int32_t gather = builder.gather(kSecond, {first});
    const std::int32_t last = builder.compute(1, {gather});
    const std::int32_t update = add(builder, Lane::CpuAdam, adam);
    builder.copy_in(kSecond, {update});
    builder.after_previous(first, last).after_previous(update, last);
    return Engine(platform, 1).simulate(builder.program()).step_seconds;
  };
  CHECK_THAT(step(1), WithinRel(3, kRounding));
  CHECK_THAT(step(0.5), WithinRel(3.5, kRounding));
  CHECK_THAT(step(2), WithinRel(4, kRounding));
}

TEST_CASE(
    "with measured contention a step stays between its bounds, and reruns are bit-identical") {
  std::mt19937 random(17);
  std::uniform_real_distribution<double> any_slowdown(1.0, 3.0);
  for (int round = 0; round < 150; ++round) {
    const int world_size = 1 << (round % 3);
    Platform platform = plain_platform();
    for (const int ranks : {1, 2, 4}) {
      for (const Lane first : kLanes) {
        for (const Lane second : kLanes) {
          if (second < first || (first == second && ranks == 1)) continue;
          ContentionSample load{ranks, {{first, any_slowdown(random)}}};
          load.slowdown.try_emplace(second, any_slowdown(random));
          platform.contention.push_back(load);
          load.d2h_adds = load.slowdown.contains(Lane::D2H);
          for (auto& [lane, slowdown] : load.slowdown) slowdown = any_slowdown(random);
          if (load.d2h_adds) platform.contention.push_back(load);
        }
      }
    }
    platform.host_cores = 4;
    platform.cpu_adam[4] = {{{0, 0, 0}, {4e9, 1, 0}}};
    Program program = test::random_program(random, world_size, 5 + round % 40);
    program.cpu_adam_threads = round % 2 == 0 ? 1 : 4;
    Engine engine(platform, world_size);
    const Timeline timeline = engine.simulate(program, {.max_steps = 40});
    CAPTURE(round, world_size);
    CHECK(lower_bound_seconds(program, platform) <= timeline.step_seconds * (1 + kRounding));
    CHECK(timeline.step_seconds <= test::serial_seconds(program, platform) * (1 + kRounding));
    CHECK(test::identical(engine.simulate(program, {.max_steps = 40}), timeline));
  }
}

TEST_CASE(
    "lanes that share slow each other down as SharedRates says, with contention samples or "
    "without") {
  std::mt19937 random(23);
  std::uniform_real_distribution<double> any_slowdown(1.0, 3.0);
  int slowed = 0;
  for (int round = 0; round < 40; ++round) {
    const int world_size = 1 << (round % 3);
    Platform platform = test::random_platform(random);
    if (round % 2 == 0) {
      platform.contention = {
          {1, {{Lane::Compute, any_slowdown(random)}, {Lane::H2D, any_slowdown(random)}}}};
    }
    const ContentionModel measured(platform, world_size, 1);
    const SharedRates rates =
        shared_rates(platform, world_size).with_adam(cpu_adam_use(platform, 1));
    Engine engine(platform, world_size);
    for (LaneSet running = 1; running < kNumLaneSets; running += 5) {
      const LaneValues expected = rates.slowdowns(running, measured.slowdowns(running));
      for (const Lane lane : kLanes) {
        if ((running & lane_bit(lane)) == 0) continue;
        CAPTURE(round, world_size, running, lane_name(lane));
        REQUIRE_THAT(simulated_slowdown(lane, running, engine, world_size),
                     WithinRel(expected[lane_index(lane)], 1e-6));
        slowed += expected[lane_index(lane)] > 1 ? 1 : 0;
      }
    }
  }
  CHECK(slowed > 1000);
}

TEST_CASE("the bound is the best division of time between lanes that share") {
  // The capacity is 1.5; each lane asks 1 and gets 0.75. Half a second's work of one takes 2/3 s
  // while the other runs. The second half of the other's work is then done alone.
  Platform platform = plain_platform();
  test::share(platform, SharedResource::Scope::Device, 1.5, {Lane::Collective, Lane::H2D}, 1);
  ProgramBuilder builder;
  builder.gather(kSecond);
  builder.copy_in(kSecond / 2);
  const Seconds expected = 2.0 / 3 + 0.5;
  CHECK_THAT(lower_bound_seconds(builder.program(), platform), WithinRel(expected, 1e-6));
  CHECK_THAT(Engine(platform, 1).simulate(builder.program()).step_seconds,
             WithinRel(expected, 1e-6));
}

TEST_CASE("the bound is the best division of time between sets of lanes") {
  // Each lane has one second of work. Together they run for 1.25 s, in which 1.25 / 1.5 s of copies
  // are done; the rest runs alone. One after the other they would take 2 s.
  const Platform platform = disturbed_platform();
  ProgramBuilder builder;
  builder.copy_in(1'000'000'000);
  builder.adam(1'000'000'000);
  const Seconds rest = 1 - 1.25 / 1.5;
  CHECK_THAT(lower_bound_seconds(builder.program(), platform), WithinRel(1.25 + rest, 1e-6));
}

}  // namespace athanor
