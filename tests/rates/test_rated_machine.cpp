// SPDX-License-Identifier: Apache-2.0
// A machine with a run's rates: operations cost their factors more, and what was not measured
// follows what is like it.
#include "sim/cost/costs.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/patterns/tokens_travel.hpp"
#include "sim/policy/policies.hpp"
#include "sim/rates/measure_rates.hpp"
#include "sim/rates/rated_machine.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kExact = 1e-9;

struct Machine {
  Platform platform = test::synthetic_platform(2);
  Profile profile = test::synthetic_profile(load_architecture("gpt2-tiny"), 128, {1, 2});
  Plan plan;
  Program program;

  explicit Machine(const std::string& policy, const PlanRequest& request = {.num_gpus = 2,
                                                                            .global_batch = 4,
                                                                            .micro_batch = 1})
      : plan(make_policy_plan(policy, profile, platform, request)), program(lower(profile, plan)) {}

  /// Seconds of each of the program's operations on the machine with these rates.
  [[nodiscard]] std::vector<Seconds> rated(const RateFactors& factors) const {
    const RatedMachine rated = rated_machine(platform, profile, program, factors);
    return solo_seconds(lower(rated.profile, plan), rated.platform);
  }
};

/// Whether an operation's cost is that of a curve or a phase that rates are taken for.
bool has_rate(OpKind kind) {
  return kind != OpKind::GradAdd && kind != OpKind::Norm && kind != OpKind::Fence &&
         kind != OpKind::Mark && kind != OpKind::Loss && kind != OpKind::AdamRollback;
}

/// One factor for all that share a curve.
double factor_of(const Operation& op) {
  switch (op.lane) {
    case Lane::Compute:
      return op.kind == OpKind::Backward ? 1.3 : 0.9;
    case Lane::Collective:
      return op.kind == OpKind::Gather ? 1.7 : 1.6;
    case Lane::H2D:
      return 1.2;
    case Lane::D2H:
      return op.accumulate ? 2.5 : 1.5;
    default:
      return 3;
  }
}

}  // namespace

TEST_CASE("each operation of a rated machine costs its factor more") {
  for (const char* policy : {"zero3-offload", "fsdp2-offload", "ddp"}) {
    INFO(policy);
    const Machine machine(policy);
    RateFactors factors;
    for (const Operation& op : machine.program.operations) {
      factors.operations[rate_key(op, machine.program)] = factor_of(op);
    }
    const std::vector<Seconds> before = solo_seconds(machine.program, machine.platform);
    const std::vector<Seconds> after = machine.rated(factors);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Operation& op = machine.program.operations[i];
      if (!has_rate(op.kind)) continue;
      INFO(machine.program.name(static_cast<std::int32_t>(i)));
      CHECK_THAT(after[i], WithinRel(factor_of(op) * before[i], kExact));
    }
  }
}

TEST_CASE("stages and exchanges of tokens that travel cost their factors more") {
  const Platform platform = test::synthetic_platform(2);
  const Profile profile = test::mixture_profile(2);
  Plan plan = make_policy_plan("zero2", profile, platform,
                               {.num_gpus = 2, .global_batch = 4, .micro_batch = 1});
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = profile.architecture.units[u];
    if (unit.unit_class != "experts") continue;
    plan.units[u].pattern = &tokens_travel();
    plan.units[u].capacity = 32;
    plan.units[u].chunks = {
        {num_chunks(unit, plan.chunk_elements, 2, tokens_travel()), Home::Gpu, Home::Gpu}};
  }
  const Program program = lower(profile, plan);
  RateFactors factors;
  for (const Operation& op : program.operations) {
    const bool counts = is_unit_phase(op) || is_exchange(op);
    if (counts) factors.operations[rate_key(op, program)] = factor_of(op);
  }
  const RatedMachine rated = rated_machine(platform, profile, program, factors);
  const std::vector<Seconds> before = solo_seconds(program, platform);
  const std::vector<Seconds> after = solo_seconds(lower(rated.profile, plan), rated.platform);
  int exchanges = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Operation& op = program.operations[i];
    const bool counts = is_unit_phase(op) || is_exchange(op);
    exchanges += is_exchange(op) ? 1 : 0;
    INFO(program.name(static_cast<std::int32_t>(i)));
    CHECK_THAT(after[i], WithinRel((counts ? factor_of(op) : 1) * before[i], kExact));
  }
  CHECK(exchanges > 0);
}

TEST_CASE("kinds that share a curve share the mean of their factors, weighted by time") {
  const Machine machine("zero3-offload");
  RateFactors factors;
  for (const Operation& op : machine.program.operations) {
    if (op.lane != Lane::H2D) continue;
    factors.operations[rate_key(op, machine.program)] = op.kind == OpKind::Fetch ? 4 : 1;
  }
  const RatedMachine rated =
      rated_machine(machine.platform, machine.profile, machine.program, factors);
  const double factor = rated.platform.h2d.at(1e6) / machine.platform.h2d.at(1e6);
  CHECK(factor > 1);
  CHECK(factor <= 4);
}

TEST_CASE("what was not measured follows what is like it, and the rest stays") {
  Machine machine("zero3-offload");
  for (UnitCost& cost : machine.profile.costs) {
    cost.backward.replay = ReplayCost{cost.backward.seconds, cost.backward.issue_seconds, 1};
    cost.nondeterministic_backward = cost.recompute;
  }
  RateFactors factors;
  for (const Operation& op : machine.program.operations) {
    const RateKey key = rate_key(op, machine.program);
    if (op.kind == OpKind::Adam) factors.operations[key] = 3;
    if (op.kind == OpKind::Backward) factors.operations[key] = 2;
  }
  const RatedMachine rated =
      rated_machine(machine.platform, machine.profile, machine.program, factors);
  const Platform &before = machine.platform, &after = rated.platform;
  CHECK_THAT(after.cpu_adam.at(4).at(1e6), WithinRel(3 * before.cpu_adam.at(4).at(1e6), kExact));
  CHECK_THAT(after.host_square_sum.at(1e6), WithinRel(3 * before.host_square_sum.at(1e6), kExact));
  CHECK(after.device_adam.at(1e6) == before.device_adam.at(1e6));
  CHECK(after.h2d.at(1e6) == before.h2d.at(1e6));
  CHECK(after.all_gather.front().curve.at(1e6) == before.all_gather.front().curve.at(1e6));
  for (std::size_t i = 0; i < rated.profile.costs.size(); ++i) {
    const UnitCost &old = machine.profile.costs[i], &now = rated.profile.costs[i];
    CHECK_THAT(now.backward.seconds, WithinRel(2 * old.backward.seconds, kExact));
    CHECK_THAT(now.recompute.seconds, WithinRel(2 * old.recompute.seconds, kExact));
    CHECK_THAT(now.nondeterministic_backward->seconds, WithinRel(now.recompute.seconds, kExact));
    CHECK_THAT(now.backward.replay->seconds, WithinRel(now.backward.seconds, kExact));
    CHECK_THAT(now.backward.replay->issue_seconds, WithinRel(now.backward.issue_seconds, kExact));
  }
}

TEST_CASE("additions of gradients get a curve of their own, which follows the calibrated copies") {
  const Machine machine("zero3-offload");
  REQUIRE(machine.platform.d2h_add.points.empty());
  RateFactors factors;
  for (const Operation& op : machine.program.operations) {
    if (op.lane == Lane::H2D) factors.operations[rate_key(op, machine.program)] = 10;
    if (op.kind == OpKind::GradD2H && op.accumulate) {
      factors.operations[rate_key(op, machine.program)] = 2;
    }
  }
  const RatedMachine rated =
      rated_machine(machine.platform, machine.profile, machine.program, factors);
  const Seconds both = machine.platform.d2h.at(1e6) + machine.platform.h2d.at(1e6);
  CHECK_THAT(rated.platform.d2h_add.at(1e6), WithinRel(2 * both, kExact));
}

TEST_CASE("launches take their factor, those of phases included") {
  Machine machine("ddp");
  machine.platform.issue[Lane::Compute] = 1e-5;
  machine.profile.launch_seconds = 2e-5;
  for (UnitCost& cost : machine.profile.costs) cost.backward.issue_seconds = 1e-4;
  const Program program = lower(machine.profile, machine.plan);
  const RatedMachine rated =
      rated_machine(machine.platform, machine.profile, program, {.operations = {}, .launch = 1.5});
  const std::vector<Seconds> before = issue_seconds(program, machine.platform);
  const std::vector<Seconds> after =
      issue_seconds(lower(rated.profile, machine.plan), rated.platform);
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK_THAT(after[i], WithinRel(1.5 * before[i], kExact));
  }
}

}  // namespace athanor
