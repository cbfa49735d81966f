// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/report/critical_path.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

Operation operation(OpKind kind, Lane lane, std::vector<std::int32_t> waits,
                    std::vector<std::int32_t> previous_waits = {}) {
  Operation op;
  op.kind = kind;
  op.lane = lane;
  op.waits = std::move(waits);
  op.previous_waits = std::move(previous_waits);
  return op;
}

struct Times {
  Seconds start, end;
};

/// Two equal steps, `period` apart.
Timeline two_steps(const std::vector<Times>& operations, Seconds period) {
  Timeline timeline;
  timeline.step_seconds = period;
  for (const std::int32_t step : {0, 1}) {
    for (std::size_t i = 0; i < operations.size(); ++i) {
      timeline.intervals.push_back({.operation = static_cast<std::int32_t>(i),
                                    .step = step,
                                    .start = operations[i].start + step * period,
                                    .end = operations[i].end + step * period});
    }
  }
  return timeline;
}

std::map<std::string, Seconds> path_of(const Program& program, const Timeline& timeline) {
  std::map<std::string, Seconds> path;
  for (const PathPart& part : critical_path(program, timeline)) path[part.name] = part.seconds;
  return path;
}

using Path = std::map<std::string, Seconds>;

}  // namespace

TEST_CASE("the critical path of a chain is the chain, across steps too") {
  Program program;
  program.operations = {operation(OpKind::Forward, Lane::Compute, {}, {1}),
                        operation(OpKind::Adam, Lane::CpuAdam, {0})};
  CHECK(path_of(program, two_steps({{0, 1}, {1, 3}}, 3)) == Path{{"forward", 1}, {"host adam", 2}});
}

TEST_CASE("what is hidden behind a longer operation is not on the critical path") {
  Program program;
  program.operations = {operation(OpKind::Forward, Lane::Compute, {}),
                        operation(OpKind::Fetch, Lane::H2D, {}),
                        operation(OpKind::Backward, Lane::Compute, {0, 1})};
  CHECK(path_of(program, two_steps({{0, 3}, {0, 2}, {3, 4}}, 4)) ==
        Path{{"forward", 3}, {"backward", 1}});
  CHECK(path_of(program, two_steps({{0, 1}, {0, 3}, {3, 4}}, 4)) ==
        Path{{"fetch", 3}, {"backward", 1}});
}

TEST_CASE("time in which an operation waits for its launch is on the critical path") {
  Program program;
  program.operations = {operation(OpKind::Forward, Lane::Compute, {}),
                        operation(OpKind::Backward, Lane::Compute, {})};
  CHECK(path_of(program, two_steps({{0, 1}, {1.5, 3}}, 3.25)) ==
        Path{{"forward", 1}, {"backward", 1.5}, {"launch", 0.75}});
}

TEST_CASE("a timeline without operations has no critical path") {
  CHECK(critical_path(Program{}, Timeline{}).empty());
}

TEST_CASE("the parts of a critical path add up to the step") {
  std::mt19937 random(11);
  const Platform platform = test::synthetic_platform(2);
  for (int i = 0; i < 40; ++i) {
    const Architecture architecture = test::small_architecture(3, i % 2 == 0);
    const Plan plan = test::random_plan(architecture, random);
    if (plan.world_size > 2) continue;
    Profile profile =
        test::synthetic_profile(architecture, plan.sequence_length, {plan.micro_batch});
    profile.dtype = plan.dtype;
    Engine engine(platform, plan.world_size);
    const Program program = lower(profile, plan);
    const Timeline timeline = engine.simulate(program);
    Seconds sum = 0;
    for (const PathPart& part : critical_path(program, timeline)) sum += part.seconds;
    CAPTURE(i);
    CHECK_THAT(sum, WithinRel(timeline.step_seconds, 1e-9));
  }
}

}  // namespace athanor
