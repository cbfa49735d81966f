// SPDX-License-Identifier: Apache-2.0
// Choices of a plan's schedule, seen in the simulated timeline.
#include "sim/cost/costs.hpp"
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kSlack = 1e-9;

const Operation& operation_of(const Program& program, const Interval& interval) {
  return program.operations[static_cast<std::size_t>(interval.operation)];
}

bool is_copy(const Operation& op) { return op.lane == Lane::H2D || op.lane == Lane::D2H; }

/// Returns the chosen operations' intervals on one rank, over all steps.
std::vector<Interval> chosen(const Program& program, const Timeline& timeline,
                             const std::function<bool(const Operation&)>& choose) {
  std::vector<Interval> intervals;
  for (const Interval& interval : timeline.intervals) {
    if (interval.rank == 0 && choose(operation_of(program, interval))) {
      intervals.push_back(interval);
    }
  }
  return intervals;
}

/// Returns the longest time for which one of `a` and one of `b` both run.
Seconds overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  Seconds most = 0;
  for (const Interval& x : a) {
    for (const Interval& y : b) {
      most = std::max(most, std::min(x.end, y.end) - std::max(x.start, y.start));
    }
  }
  return most;
}

Seconds copies_beside_computation(const Program& program, const Timeline& timeline) {
  return overlap(
      chosen(program, timeline, is_copy),
      chosen(program, timeline, [](const Operation& op) { return op.lane == Lane::Compute; }));
}

Seconds adam_beside_adam(const Program& program, const Timeline& timeline) {
  const auto adam_on = [&](Lane lane) {
    return chosen(program, timeline, [lane](const Operation& op) {
      return op.kind == OpKind::Adam && op.lane == lane;
    });
  };
  return overlap(adam_on(Lane::Compute), adam_on(Lane::CpuAdam));
}

/// Returns by how much, at most, a step's first update comes before its last gradient.
Seconds update_before_gradient(const Program& program, const Timeline& timeline) {
  Seconds most = 0;
  const auto updates = chosen(program, timeline, [](const Operation& op) {
    return op.kind == OpKind::Adam || op.kind == OpKind::StateRead ||
           (op.kind == OpKind::SquareSum && op.gradient_buffer < 0);
  });
  const auto gradients = chosen(program, timeline, [](const Operation& op) {
    return op.kind == OpKind::Backward || op.kind == OpKind::Reduce || op.kind == OpKind::GradD2H;
  });
  for (const Interval& update : updates) {
    for (const Interval& gradient : gradients) {
      if (update.step == gradient.step) most = std::max(most, gradient.end - update.start);
    }
  }
  return most;
}

/// Returns by how much, at most, a step begins before the end of the one before.
Seconds step_before_step(const Timeline& timeline) {
  std::vector<Seconds> begin, end;
  for (const Interval& interval : timeline.intervals) {
    const auto step = static_cast<std::size_t>(interval.step);
    if (step >= begin.size()) {
      begin.resize(step + 1, interval.start);
      end.resize(step + 1, 0);
    }
    begin[step] = std::min(begin[step], interval.start);
    end[step] = std::max(end[step], interval.end);
  }
  Seconds most = 0;
  for (std::size_t step = 1; step < begin.size(); ++step) {
    most = std::max(most, end[step - 1] - begin[step]);
  }
  return most;
}

/// Units on the host, computed on one device: fetches, gradients, CPU Adam, and no collective but
/// the loss.
struct HostChain {
  HostChain() {
    plan = test::uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
    plan.cache_slots = 3;
    plan.prefetch_depth = 2;
  }
  [[nodiscard]] Program program() const {
    Program lowered = lower(test::small_profile(architecture, 1), plan);
    for (Operation& op : lowered.operations) op.compute_seconds *= 1e-3;
    return lowered;
  }
  [[nodiscard]] Seconds step_seconds() const {
    return Engine(platform, 1).simulate(program()).step_seconds;
  }
  /// Returns the time of all operations on `lanes`.
  [[nodiscard]] Seconds sum(const std::vector<Lane>& lanes) const {
    const Program lowered = program();
    const std::vector<Seconds> seconds = solo_seconds(lowered, platform);
    Seconds total = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      if (std::ranges::find(lanes, lowered.operations[i].lane) != lanes.end()) total += seconds[i];
    }
    return total;
  }

  Architecture architecture = test::small_architecture(6, false);
  Platform platform = test::plain_platform();
  Plan plan;
};

}  // namespace

TEST_CASE_METHOD(HostChain, "blocking copies take their time one by one, between computations") {
  const Seconds overlapped = step_seconds();
  plan.schedule.copies = Copies::Blocking;
  plan.schedule.optimizer = OptimizerStart::AfterBackward;
  const Seconds adam = sum({Lane::CpuAdam});
  const Seconds copies_and_compute = sum({Lane::Compute, Lane::H2D, Lane::D2H});
  CHECK_THAT(step_seconds(), WithinRel(copies_and_compute + adam, 1e-9));
  CHECK(overlapped < 0.8 * (copies_and_compute + adam));
}

TEST_CASE_METHOD(HostChain, "with blocking copies alone CPU Adam still runs during copies") {
  plan.schedule.copies = Copies::Blocking;
  const Seconds serial = sum({Lane::Compute, Lane::H2D, Lane::D2H});
  CHECK(step_seconds() >= serial * (1 - kSlack));
  CHECK(step_seconds() < serial + sum({Lane::CpuAdam}));
}

TEST_CASE_METHOD(HostChain, "late updates let the next forward begin while the CPU still works") {
  // Updates take most of the step. In the order of gradients, the first unit's is the last.
  platform.cpu_adam[1] = {{{0, 0, 0}, {1e3, 10e-3, 0}}};
  const Seconds in_order = step_seconds();
  plan.late_updates = 5;
  const Seconds late = step_seconds();
  const Seconds adam = sum({Lane::CpuAdam});
  CHECK(late >= adam * (1 - kSlack));
  CHECK(in_order - late > 0.5 * sum({Lane::Compute}) / 3);  // most of the forward
}

TEST_CASE("the timeline of every random plan keeps to its schedule") {
  std::mt19937 random(4);
  int beside = 0, both = 0, early = 0, across = 0;
  for (int i = 0; i < 150; ++i) {
    const Architecture architecture = test::small_architecture(1 + i % 6, i % 2 == 0);
    const Plan plan = test::random_plan(architecture, random);
    Program program = lower(test::small_profile(architecture, plan.micro_batch, plan.dtype), plan);
    for (Operation& op : program.operations) op.compute_seconds *= 1e-3;
    const Platform platform = test::random_platform(random);
    const Timeline timeline = Engine(platform, program.world_size).simulate(program);
    const Seconds slack = kSlack * timeline.intervals.back().end;
    CAPTURE(i);
    const bool blocking = plan.schedule.copies == Copies::Blocking;
    const Seconds copies = copies_beside_computation(program, timeline);
    if (blocking) CHECK(copies <= slack);
    beside += !blocking && copies > slack ? 1 : 0;
    const bool serial = plan.schedule.optimizer_lanes == OptimizerLanes::Serial;
    const bool after = plan.schedule.optimizer == OptimizerStart::AfterBackward;
    const Seconds adam = adam_beside_adam(program, timeline);
    if (serial) CHECK(adam <= slack);
    both += !serial && adam > slack ? 1 : 0;
    const Seconds updates = update_before_gradient(program, timeline);
    const Seconds steps = step_before_step(timeline);
    if (after) {
      CHECK(updates <= slack);
      CHECK(steps <= slack);
    }
    early += !after && updates > slack ? 1 : 0;
    across += !after && steps > slack ? 1 : 0;
  }
  // Each overlap that a choice rules out does happen without it.
  CHECK(std::min({beside, both, early, across}) > 10);
}

TEST_CASE("no choice of a schedule makes a step faster if lanes keep their order") {
  std::mt19937 random(8);
  for (int i = 0; i < 100; ++i) {
    const Architecture architecture = test::small_architecture(1 + i % 6, i % 2 == 0);
    Plan plan = test::random_plan(architecture, random);
    plan.clipping = Clipping::Wait;  // updates are in one order whenever they start
    Platform platform = test::plain_platform();
    test::share(platform, SharedResource::Scope::Node, 1e9, {Lane::NvmeRead, Lane::NvmeWrite}, 1);
    const auto seconds = [&](const Schedule& schedule) {
      Plan changed = plan;
      changed.schedule = schedule;
      Program program =
          lower(test::small_profile(architecture, plan.micro_batch, plan.dtype), changed);
      for (Operation& op : program.operations) op.compute_seconds *= 1e-3;
      return Engine(platform, program.world_size).simulate(program).step_seconds;
    };
    Schedule schedule = plan.schedule;
    const Seconds chosen = seconds(schedule);
    CAPTURE(i);
    schedule.copies = Copies::Overlapped;
    CHECK(seconds(schedule) <= chosen * (1 + kSlack));
    schedule.optimizer = OptimizerStart::Overlapped;
    CHECK(seconds(schedule) <= chosen * (1 + kSlack));
    schedule.optimizer_lanes = OptimizerLanes::Concurrent;
    CHECK(seconds(schedule) <= chosen * (1 + kSlack));
  }
}

}  // namespace athanor
