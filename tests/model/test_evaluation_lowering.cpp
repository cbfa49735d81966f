// SPDX-License-Identifier: Apache-2.0
// Programs that evaluate a model between two steps.
#include "sim/lowering/lowering.hpp"
#include "sim/model/memory.hpp"
#include "tests/model/race_check.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace athanor {
namespace {

using test::find_races;
using test::random_plan;
using test::small_architecture;
using test::small_profile;
using test::uniform_plan;

std::map<OpKind, int> count_kinds(const Program& program) {
  std::map<OpKind, int> counts;
  for (const Operation& op : program.operations) ++counts[op.kind];
  return counts;
}

TEST_CASE("an evaluation fetches and computes each unit once, and frees what it has read") {
  const Architecture architecture = small_architecture(4, true);
  const auto units = static_cast<int>(architecture.units.size());
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  plan.accumulation = 4;
  plan.micro_batch_group = 2;
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Offload;
  const Profile profile = small_profile(architecture, plan.micro_batch, plan.dtype);
  const Program program = lower_evaluation(profile, plan);
  const auto counts = count_kinds(program);
  CHECK(counts.size() == 4);
  CHECK(counts.at(OpKind::Forward) == units * plan.accumulation);
  // Lenders may still be in their slots.
  CHECK(counts.at(OpKind::Fetch) <= units * plan.accumulation / plan.micro_batch_group);
  CHECK(counts.at(OpKind::Gather) == counts.at(OpKind::Fetch));
  CHECK(counts.at(OpKind::Loss) == 1);
  std::set<std::int32_t> live;
  std::size_t most = 0;
  for (const Operation& op : program.operations) {
    CHECK_FALSE(op.keep);
    for (const std::int32_t buffer : op.allocates) CHECK(live.insert(buffer).second);
    most = std::max(most, live.size());
    for (const std::int32_t buffer : op.frees) CHECK(live.erase(buffer) == 1);
  }
  CHECK(live.empty());
  // Each member of the group has its batch and one output, and the output that is being made.
  CHECK(most == 2 * 2 + 1);
}

TEST_CASE("evaluations under random plans have no race, the pools of training and no higher peak") {
  std::mt19937 random(20261126);
  for (int i = 0; i < 300; ++i) {
    const Architecture architecture = small_architecture(1 + i % 5, i % 2 == 0);
    const Plan plan = random_plan(architecture, random);
    const Profile profile = small_profile(architecture, plan.micro_batch, plan.dtype);
    const Program training = lower(profile, plan);
    const Program evaluation = lower_evaluation(profile, plan);
    INFO("plan " << i);
    for (const std::string& race : find_races(evaluation, architecture, plan)) FAIL(race);
    CHECK(evaluation.pools.size() == training.pools.size());
    for (std::size_t pool = 0; pool < training.pools.size(); ++pool) {
      CHECK(evaluation.pools[pool].slots == training.pools[pool].slots);
    }
    CHECK(peak_bytes(evaluation).gpu <= peak_bytes(training).gpu);
    CHECK(peak_bytes(evaluation).pinned <= peak_bytes(training).pinned);
  }
}

}  // namespace
}  // namespace athanor
