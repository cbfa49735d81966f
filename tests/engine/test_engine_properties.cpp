// SPDX-License-Identifier: Apache-2.0
// Properties that hold for every program and platform.
#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/serial_seconds.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace athanor {
namespace {

using test::cluster;
using test::identical;
using test::plain_platform;
using test::ProgramBuilder;
using test::random_platform;
using test::random_program;

/// Tolerance: the engine resolves time to about 1e-12 of a serial step per operation.
constexpr double kSlack = 1e-9;

/// Returns one node, or several nodes of one to four devices.
Platform random_machine(std::mt19937& random, int i) {
  const Platform node = random_platform(random);
  return i % 2 == 0 ? node : cluster(node, 1 << (i / 2 % 3));
}

TEST_CASE("a simulated step is at least its lower bound and at most its serial sum") {
  std::mt19937 random(20240601);
  SimulationOptions options;
  options.max_steps = 40;
  for (int i = 0; i < 400; ++i) {
    const int world_size = 1 << (i % 4);
    const Program program = random_program(random, world_size, 1 + i % 60);
    const Platform platform = random_machine(random, i);
    Engine engine(platform, world_size);
    const Seconds simulated = engine.simulate(program, options).step_seconds;
    CAPTURE(i, world_size, simulated);
    CHECK(lower_bound_seconds(program, platform) <= simulated * (1 + kSlack));
    CHECK(simulated <= test::serial_seconds(program, platform) * (1 + kSlack));
  }
}

TEST_CASE("lowered programs reach a steady state between their bounds") {
  std::mt19937 random(99);
  for (int i = 0; i < 60; ++i) {
    const Architecture architecture = test::small_architecture(1 + i % 6, i % 2 == 0);
    const Plan plan = test::random_plan(architecture, random);
    Program program = lower(test::small_profile(architecture, plan.micro_batch, plan.dtype), plan);
    // Computing takes about as long as the small units' copies, so either may be the bottleneck.
    for (Operation& op : program.operations) op.compute_seconds *= 1e-3;
    const Platform platform = random_platform(random);
    Engine engine(platform, program.world_size);
    const Timeline timeline = engine.simulate(program);
    CAPTURE(i, program.world_size, program.operations.size());
    CHECK(timeline.intervals.back().step + 1 < SimulationOptions().max_steps);
    CHECK(lower_bound_seconds(program, platform) <= timeline.step_seconds * (1 + kSlack));
    CHECK(timeline.step_seconds <= test::serial_seconds(program, platform) * (1 + kSlack));
  }
}

TEST_CASE("one rank with its share stands for all ranks") {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const int world_size = 2 << (i % 3);
    const Program program = random_program(random, world_size, 30);
    const Platform platform = random_machine(random, i);
    const auto simulate = [&](RankModel model) {
      return Engine(platform, world_size, model).simulate(program);
    };
    const Timeline folded = simulate(RankModel::Folded);
    const Timeline each = simulate(RankModel::Each);
    CAPTURE(i, world_size);
    CHECK(std::abs(folded.step_seconds - each.step_seconds) <= kSlack * each.step_seconds);
    REQUIRE(folded.intervals.size() == each.intervals.size());
    const double allowed = kSlack * each.intervals.back().end;
    bool equal = true;
    for (std::size_t k = 0; k < each.intervals.size(); ++k) {
      const Interval& a = folded.intervals[k];
      const Interval& b = each.intervals[k];
      equal = equal && a.operation == b.operation && a.rank == b.rank && a.step == b.step &&
              std::abs(a.start - b.start) <= allowed && std::abs(a.end - b.end) <= allowed;
    }
    CHECK(equal);
  }
}

TEST_CASE("reruns are bit-identical, however many replays came between") {
  std::mt19937 random(11);
  Platform platform = random_platform(random);
  while (platform.shared.size() < 3) platform = random_platform(random);
  Engine engine(platform, 2);
  std::vector<Program> programs;
  std::vector<Timeline> first;
  for (int i = 0; i < 10; ++i) {
    programs.push_back(random_program(random, 2, 5 + 5 * i));
    first.push_back(engine.simulate(programs.back()));
  }
  // A chain without contention uses its clock frame to the full, so this passes several intervals
  // of the clock.
  ProgramBuilder chain;
  chain.compute(1);
  Program filler = chain.program();
  filler.world_size = 2;
  SimulationOptions options;
  options.max_steps = 3;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 300; ++i) static_cast<void>(engine.simulate(filler, options));
    for (std::size_t i = 0; i < programs.size(); ++i) {
      REQUIRE(identical(engine.simulate(programs[i]), first[i]));
    }
  }
}

TEST_CASE("operations run in lane order, after their waits and one at a time") {
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    const Program program = random_program(random, 1, 40);
    const Timeline timeline = Engine(random_platform(random), 1).simulate(program);
    const std::size_t count = program.operations.size();
    std::array<Seconds, kNumLanes> lane_end{};
    bool ordered = true;
    for (std::size_t k = 0; k < timeline.intervals.size(); ++k) {
      const Interval& interval = timeline.intervals[k];
      const Operation& op = program.operations[k % count];
      Seconds& busy_until = lane_end[static_cast<std::size_t>(op.lane)];
      ordered = ordered && interval.start >= busy_until && interval.end >= interval.start;
      busy_until = interval.end;
      for (const auto wait : op.waits) {
        ordered = ordered && interval.start >= timeline.intervals[k - k % count + wait].end;
      }
      for (const auto wait : op.previous_waits) {
        if (k < count) continue;
        ordered = ordered && interval.start >= timeline.intervals[k - k % count - count + wait].end;
      }
    }
    CHECK(ordered);
  }
}

TEST_CASE("more capacity never slows a chain down") {
  std::mt19937 random(3);
  ProgramBuilder builder;
  std::int32_t last = builder.copy_in(1000);
  const std::int32_t first = last;
  for (int i = 0; i < 20; ++i) {
    last = i % 2 == 0 ? builder.copy_out(1000 + i, {last}) : builder.copy_in(1000 + i, {last});
  }
  builder.after_previous(first, last);
  Seconds before = INFINITY;
  for (double capacity = 0.25; capacity < 4; capacity *= 1.3) {
    Platform platform = plain_platform();
    test::share(platform, SharedResource::Scope::Node, capacity, {Lane::H2D, Lane::D2H}, 1);
    const Seconds now = Engine(platform, 1).simulate(builder.program()).step_seconds;
    CHECK(now <= before);
    before = now;
  }
}

}  // namespace
}  // namespace athanor
