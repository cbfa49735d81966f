// SPDX-License-Identifier: Apache-2.0
#include "sim/report/explain.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

namespace athanor {
namespace {

using Catch::Approx;

Operation on_lane(Lane lane, OpKind kind) {
  Operation op;
  op.lane = lane;
  op.kind = kind;
  return op;
}

}  // namespace

TEST_CASE("utilizations are busy time over the step, busiest first") {
  Platform platform = test::synthetic_platform(2);
  platform.shared = {{"bridge", SharedResource::Scope::Node, 10.0, {{Lane::H2D, 7.0}}}};
  platform.h2d = {{{0, 0.5, 0}}};  // every copy takes half a second
  Program program;
  program.world_size = 2;
  Operation forward = on_lane(Lane::Compute, OpKind::Forward);
  forward.compute_seconds = 0.25;
  program.operations = {forward, on_lane(Lane::H2D, OpKind::Fetch)};

  const std::vector<Utilization> loads =
      utilizations(program, platform, bound_tables(platform, 2, 1), 1.0);
  REQUIRE(loads.size() == kNumLanes + 1);
  CHECK(loads[0].name == "bridge");
  CHECK(loads[0].share == Approx(0.5 * 7 * 2 / 10));
  CHECK(loads[1].name == "h2d");
  CHECK(loads[1].share == Approx(0.5));
  CHECK(loads[2].name == "compute");
  CHECK(loads[2].share == Approx(0.25));
}

TEST_CASE("throughput and utilization follow from the step time") {
  const Platform platform = test::synthetic_platform(2);
  Architecture architecture = test::small_architecture(2, false);
  for (Unit& unit : architecture.units) unit.forward_flops_per_token = 1e6;
  const Profile profile = test::synthetic_profile(architecture, 16, {2});
  Plan plan = test::uniform_plan(architecture, 2, Sharding::Replicated, Home::Gpu, Home::Gpu);
  plan.micro_batch = 2;
  plan.accumulation = 3;

  const Explanation result = explain(Program{}, plan, profile, platform, 0.5);
  CHECK(result.tokens_per_second == Approx(2 * 3 * 2 * 16 / 0.5));
  const double flops = result.tokens_per_second * 3 * 4 * 1e6;  // 4 units, backward twice forward
  CHECK(result.model_flops_utilization == Approx(flops / (2 * platform.matmul_flops_per_second)));
}

}  // namespace athanor
