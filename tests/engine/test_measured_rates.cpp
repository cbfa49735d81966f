// SPDX-License-Identifier: Apache-2.0
// Predictions with the rates that a run measured.
#include "sim/cost/costs.hpp"
#include "sim/engine/measured_rates.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/policy/policies.hpp"
#include "sim/rates/measure_rates.hpp"
#include "sim/rates/rated_machine.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <map>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

std::string source_file(const std::string& name) {
  return std::string(ATHANOR_SOURCE_DIR) + "/" + name;
}

/// Interval of an operation on a rank in step 1.
Interval interval_of(std::int32_t operation, std::int32_t rank, Seconds start, Seconds end) {
  return {.operation = operation, .rank = rank, .step = 1, .start = start, .end = end};
}

}  // namespace

TEST_CASE("measured rates give back the step of a machine whose kinds of operation are slower") {
  const Platform platform = read_platform(source_file("platforms/h100x1.json"));
  const Profile profile = read_profile(source_file("traces/profiles/h100-gpt2-4b.profile.json"));
  const PlanRequest request{.num_gpus = 1, .global_batch = 16};
  Engine engine(platform, 1);
  for (const char* policy : {"zero3-offload", "elixir-fifo"}) {
    INFO(policy);
    const Program program = lower(profile, make_policy_plan(policy, profile, platform, request));
    SimulationOptions slower;
    for (const Operation& op : program.operations) {
      slower.operation_scale.push_back(op.lane == Lane::CpuAdam      ? 1.35
                                       : op.lane == Lane::H2D        ? 1.2
                                       : op.kind == OpKind::Backward ? 1.08
                                                                     : 0.97);
    }
    const Timeline measured = engine.simulate(program, slower);
    const Timeline before = engine.simulate(program);
    CHECK(std::abs(before.step_seconds / measured.step_seconds - 1) > 0.05);
    const WantedRates rates = wanted(measure_rates(program, measured));
    const Timeline again = simulate_with_rates(engine, program, before, rates);
    CHECK_THAT(again.step_seconds, WithinRel(measured.step_seconds, 0.01));
  }
}

TEST_CASE("a machine with a run's rates has the step that the run's rates give") {
  const Platform platform = read_platform(source_file("platforms/h100x1.json"));
  const Profile profile = read_profile(source_file("traces/profiles/h100-gpt2-4b.profile.json"));
  const Plan plan =
      make_policy_plan("zero3-offload", profile, platform, {.num_gpus = 1, .global_batch = 16});
  const Program program = lower(profile, plan);
  Timeline before, again;
  RatedStep step;
  {
    Engine engine(platform, 1);
    before = engine.simulate(program);
    WantedRates rates = wanted(measure_rates(program, before));
    for (auto& [key, seconds] : rates.seconds) {
      if (key.lane == Lane::CpuAdam) seconds *= 2;
      if (key.kind == OpKind::Backward) seconds *= 1.1;
    }
    step = fit_rates(engine, program, before, rates);
  }
  CHECK(step.timeline.step_seconds > 1.05 * before.step_seconds);
  const RatedMachine machine = rated_machine(platform, profile, program, step.factors);
  Engine engine(machine.platform, 1);
  again = engine.simulate(lower(machine.profile, plan));
  CHECK_THAT(again.step_seconds, WithinRel(step.timeline.step_seconds, 0.01));
}

TEST_CASE("measured launches give back the step of a host that issues more slowly") {
  Platform platform = read_platform(source_file("platforms/h100x1.json"));
  platform.issue[Lane::Compute] *= 40;
  const Profile profile = read_profile(source_file("traces/profiles/h100-gpt2-4b.profile.json"));
  const Program program = lower(
      profile, make_policy_plan("ddp", profile, platform, {.num_gpus = 1, .global_batch = 1}));
  Engine engine(platform, 1);
  SimulationOptions slower;
  slower.issue_speed = 1 / 1.3;
  const Timeline measured = engine.simulate(program, slower);
  const Timeline before = engine.simulate(program);
  REQUIRE(measured.step_seconds / before.step_seconds > 1.1);  // the step is bound by issuing
  const MeasuredRates rates = measure_rates(program, measured, issue_seconds(program, platform));
  REQUIRE(rates.launches);
  CHECK_THAT(rates.launches->seconds / rates.launches->calibrated, WithinRel(1.3, 1e-6));
  const Timeline again = simulate_with_rates(engine, program, before, wanted(rates));
  CHECK_THAT(again.step_seconds, WithinRel(measured.step_seconds, 0.01));
}

TEST_CASE("rates that count half take the step half the way") {
  test::ProgramBuilder builder(1);
  builder.compute(1);
  const Program program = builder.program();
  Engine engine(test::plain_platform(), 1);
  const Timeline before = engine.simulate(program);
  CombinedRates combined;
  combined.rates.push_back({.key = rate_key(program.operations[0], program),
                            .count = 1,
                            .predicted = 1,
                            .measured = 4,
                            .combined = combined_seconds(1, 4, 0.5)});
  const Timeline again = simulate_with_rates(engine, program, before, wanted(combined));
  CHECK_THAT(again.step_seconds, WithinRel(2.0, 1e-9));
}

TEST_CASE("kinds take what the slowest rank does, without waiting in collectives") {
  test::ProgramBuilder builder(2);
  const std::int32_t compute = builder.compute(1);
  const std::int32_t gather = builder.gather(1'000'000'000);
  const Program program = builder.program();
  Timeline timeline;
  timeline.intervals = {interval_of(compute, 0, 0, 1), interval_of(compute, 1, 0, 1.5),
                        interval_of(gather, 0, 1, 2.5), interval_of(gather, 1, 1.5, 2.5)};
  Interval warm_up = interval_of(compute, 0, 0, 9);
  warm_up.step = 0;
  timeline.intervals.push_back(warm_up);
  const std::map<KindOnLane, Seconds> seconds = seconds_by_kind(program, timeline);
  REQUIRE(seconds.size() == 2);
  CHECK(seconds.at({program.operations[0].kind, Lane::Compute}) == 1.5);
  CHECK(seconds.at({program.operations[1].kind, Lane::Collective}) == 1);
  CHECK(phase_seconds_by_rank(program, timeline) == std::vector<Seconds>{1, 1.5});
}

}  // namespace athanor
