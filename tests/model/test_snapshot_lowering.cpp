// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/redo_memory.hpp"
#include "tests/model/race_check.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace athanor {
namespace {

using test::find_races;
using test::small_architecture;
using test::small_profile;
using test::uniform_plan;

}  // namespace

TEST_CASE("with snapshots, every update waits until all ranks have all gradients") {
  for (int round = 0; round < 60; ++round) {
    const Architecture architecture = small_architecture(2 + round % 4, round % 2 == 0);
    const int world_size = 1 << (round % 3);
    constexpr std::array kShardings{Sharding::Sharded, Sharding::OptimizerSharded,
                                    Sharding::Replicated};
    const Sharding sharding = kShardings.at(static_cast<std::size_t>(round / 3) % 3);
    Plan plan = uniform_plan(architecture, world_size, sharding,
                             sharding == Sharding::Sharded ? Home::Host : Home::Gpu, Home::Host);
    plan.snapshot = Snapshot::Redo;
    plan.gradient_ring = round % 2;
    plan.late_updates = round % 3;
    plan.accumulation = 1 + round % 2;
    plan.clipping = round % 4 < 2 ? Clipping::None : Clipping::Wait;
    if (round % 5 == 0) plan.schedule.optimizer = OptimizerStart::AfterBackward;
    const Program program = lower(small_profile(architecture, plan.micro_batch, plan.dtype), plan);
    CAPTURE(round);
    REQUIRE(find_races(program, architecture, plan).empty());
    std::int32_t fence = -1, last_gradient = -1;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
      const Operation& op = program.operations[static_cast<std::size_t>(i)];
      if (op.kind == OpKind::GradD2H) {
        REQUIRE(op.staging_buffer == -1);
        last_gradient = i;
      }
      if (op.kind == OpKind::Norm) REQUIRE(fence == -1);
      if (op.kind == OpKind::Fence) {
        REQUIRE(std::ranges::count(op.waits, last_gradient) == 1);
        fence = i;
      }
      if (op.kind != OpKind::Adam) continue;
      REQUIRE(fence >= 0);
      REQUIRE(std::ranges::count(op.waits, fence) == 1);
    }
    const auto log = std::ranges::find(program.static_buffers, "redo log", &Buffer::name);
    REQUIRE(log != program.static_buffers.end());
    CHECK(log->bytes == redo_log_size(program, plan).all());
  }
}

TEST_CASE("snapshots are refused where a killed step cannot be finished") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
  plan.snapshot = Snapshot::Redo;
  CHECK_NOTHROW(plan.validate(architecture, "plan"));
  SECTION("state on the GPU") {
    plan.units[1].chunks[0] = {plan.units[1].chunks[0].count, Home::Gpu, Home::Gpu};
  }
  SECTION("state on NVMe") { plan.units[1].chunks[0].optimizer = Home::Nvme; }
  SECTION("updates by the GPU") { plan.units[1].chunks[0].gpu_adam = true; }
  SECTION("moments in bf16") { plan.adam_state = DataType::BFloat16; }
  SECTION("speculation") {
    plan.dtype = DataType::BFloat16;
    plan.clipping = Clipping::Speculate;
  }
  CHECK_THROWS_AS(plan.validate(architecture, "plan"), InputError);
}

}  // namespace athanor
