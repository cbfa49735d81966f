// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/snapshot_memory.hpp"
#include "sim/model/chunk_update.hpp"
#include "tests/model/operations_of.hpp"
#include "tests/model/race_check.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using test::at;
using test::find_races;
using test::operations_of;
using test::small_architecture;
using test::small_profile;
using test::uniform_plan;

Architecture architecture_of(int round) {
  return small_architecture(2 + round % 4, round % 2 == 0);
}

/// All state in host memory, everything else as the round says.
Plan plan_of(const Architecture& architecture, int round, Snapshot snapshot) {
  constexpr std::array kShardings{Sharding::Sharded, Sharding::OptimizerSharded,
                                  Sharding::Replicated};
  const Sharding sharding = kShardings.at(static_cast<std::size_t>(round / 3) % 3);
  Plan plan = uniform_plan(architecture, 1 << (round % 3), sharding,
                           sharding == Sharding::Sharded ? Home::Host : Home::Gpu, Home::Host);
  plan.snapshot = snapshot;
  plan.gradient_ring = round % 2;
  plan.late_updates = round % 3;
  plan.accumulation = 1 + round % 2;
  plan.clipping = round % 4 < 2 ? Clipping::None : Clipping::Wait;
  if (round % 5 == 0) plan.schedule.optimizer = OptimizerStart::AfterBackward;
  return plan;
}

Bytes bytes_named(const Program& program, const std::string& start) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.static_buffers) {
    if (buffer.name.starts_with(start)) bytes += buffer.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("with a redo log, every update waits until all ranks have all gradients") {
  for (int round = 0; round < 60; ++round) {
    const Architecture architecture = architecture_of(round);
    const Plan plan = plan_of(architecture, round, Snapshot::Redo);
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
    const auto log = std::ranges::find(program.static_buffers, "snapshot log", &Buffer::name);
    REQUIRE(log != program.static_buffers.end());
    CHECK(log->bytes == snapshot_log_size(program, plan).all());
  }
}

TEST_CASE("with versions, a mark follows the last update, and says so to all ranks") {
  for (int round = 0; round < 60; ++round) {
    const Architecture architecture = architecture_of(round);
    const Plan plan = plan_of(architecture, round, Snapshot::Versions);
    const Program program = lower(small_profile(architecture, plan.micro_batch, plan.dtype), plan);
    CAPTURE(round);
    REQUIRE(find_races(program, architecture, plan).empty());
    CHECK(operations_of(program, OpKind::Fence).empty());
    const std::vector<std::int32_t> marks = operations_of(program, OpKind::Mark);
    REQUIRE(marks.size() == 1);
    const Operation& mark = at(program, marks.front());
    CHECK(mark.lane == Lane::CpuAdam);
    CHECK(mark.waits == operations_of(program, OpKind::Loss));
    for (const std::int32_t adam : operations_of(program, OpKind::Adam)) {
      REQUIRE(at(program, adam).lane == mark.lane);
      REQUIRE(adam < marks.front());
      REQUIRE(at(program, adam).beside);
    }
    // No rank gives a gradient to the others before its mark of the step before.
    const std::vector<std::int32_t> reduces = operations_of(program, OpKind::Reduce);
    REQUIRE(reduces.empty() == (plan.world_size == 1));
    if (reduces.empty()) continue;
    CHECK(std::ranges::count(at(program, reduces.front()).previous_waits, marks.front()) >= 1);
  }
}

TEST_CASE("versions take twelve bytes more of each element, and no fence") {
  for (int round = 0; round < 60; ++round) {
    const Architecture architecture = architecture_of(round);
    Plan plan = plan_of(architecture, round, Snapshot::Versions);
    plan.dtype = round % 7 < 3 ? DataType::BFloat16 : DataType::Float32;
    const Profile profile = small_profile(architecture, plan.micro_batch, plan.dtype);
    const Program program = lower(profile, plan);
    plan.snapshot = Snapshot::None;
    const Program without = lower(profile, plan);
    CAPTURE(round);
    std::int64_t elements = 0;
    for (const std::int32_t adam : operations_of(program, OpKind::Adam)) {
      elements += at(program, adam).elements;
    }
    const auto more = [&](const char* name) {
      return bytes_named(program, name) - bytes_named(without, name);
    };
    CHECK(more("host parameters") == elements * size_of(plan.dtype));
    CHECK(more("host ") == elements * kUpdatedBytes);
    CHECK(more("staged gradients") == 0);
    plan.snapshot = Snapshot::Versions;
    const SnapshotLogSize log = snapshot_log_size(program, plan);
    CHECK(more("snapshot log") == log.all());
    CHECK(log.undo == 0);
    // But for the mark, the step is that of a plan without snapshots.
    REQUIRE(program.operations.size() == without.operations.size() + 1);
  }
}

TEST_CASE("copies for peers are whole on all ranks before a gradient leads to the next version") {
  for (int round = 0; round < 60; ++round) {
    const Architecture architecture = architecture_of(round);
    Plan plan = plan_of(architecture, round, Snapshot::Versions);
    if (plan.world_size == 1) continue;
    plan.dtype = round % 7 < 3 ? DataType::BFloat16 : DataType::Float32;
    const Profile profile = small_profile(architecture, plan.micro_batch, plan.dtype);
    const Program without = lower(profile, plan);
    plan.snapshot_copies = 2;
    const Program program = lower(profile, plan);
    CAPTURE(round);
    REQUIRE(find_races(program, architecture, plan).empty());
    const std::vector<std::int32_t> copies = operations_of(program, OpKind::PeerCopy);
    const std::vector<std::int32_t> marks = operations_of(program, OpKind::PeerMark);
    REQUIRE(marks.size() == 1);
    REQUIRE(marks.front() < operations_of(program, OpKind::Reduce).front());
    const auto own_mark = operations_of(program, OpKind::Mark).front();
    CHECK(std::ranges::count(at(program, marks.front()).previous_waits, own_mark) >= 1);
    Bytes sent = 0;
    std::vector<std::pair<std::int32_t, std::int32_t>> shards;
    for (const std::int32_t copy : copies) {
      const Operation& op = at(program, copy);
      REQUIRE(copy < marks.front());
      REQUIRE(op.lane == Lane::Collective);
      const auto update = std::ranges::find_if(op.previous_waits, [&](std::int32_t wait) {
        return at(program, wait).unit == op.unit && at(program, wait).chunk == op.chunk;
      });
      REQUIRE(update != op.previous_waits.end());
      REQUIRE(at(program, *update).beside);
      REQUIRE(op.bytes == at(program, *update).elements * kUpdatedBytes);
      sent += op.bytes;
      shards.emplace_back(op.unit, op.chunk);
    }
    // A chunk that every rank has whole needs no copy; all else has one, and two places for it.
    const bool whole = plan.units[1].sharding == Sharding::Replicated;
    CHECK(copies.size() == (whole ? 0 : operations_of(program, OpKind::Adam).size()));
    std::ranges::sort(shards);
    CHECK(std::ranges::adjacent_find(shards) == shards.end());
    CHECK(bytes_named(program, "copies for the ward") == kKeptVersions * sent);
    CHECK(bytes_named(program, "host ") == bytes_named(without, "host "));
    CHECK(program.operations.size() == without.operations.size() + copies.size() + 1);
  }
}

TEST_CASE("copies for peers are refused where nobody can keep them") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  plan.snapshot = GENERATE(Snapshot::Versions, Snapshot::Copy);
  plan.snapshot_copies = 2;
  CHECK_NOTHROW(plan.validate(architecture, "plan"));
  SECTION("three copies") { plan.snapshot_copies = 3; }
  SECTION("none") { plan.snapshot_copies = 0; }
  SECTION("a redo log") { plan.snapshot = Snapshot::Redo; }
  SECTION("no snapshots") { plan.snapshot = Snapshot::None; }
  SECTION("one rank") {
    plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
    plan.snapshot = Snapshot::Versions;
    plan.snapshot_copies = 2;
  }
  CHECK_THROWS_AS(plan.validate(architecture, "plan"), InputError);
}

TEST_CASE("versions of some steps are refused where updates on the host would not wait for them") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Gpu, Home::Gpu);
  plan.snapshot = Snapshot::Copy;
  plan.snapshot_every = 3;
  CHECK_NOTHROW(plan.validate(architecture, "plan"));
  plan.snapshot_copies = 2;
  CHECK_NOTHROW(plan.validate(architecture, "plan"));
  SECTION("none") { plan.snapshot_every = 0; }
  SECTION("too many") { plan.snapshot_every = kMostSnapshotEvery + 1; }
  SECTION("state on the host") { plan.units[1].chunks[0].optimizer = Home::Host; }
  SECTION("no snapshots") {
    plan.snapshot = Snapshot::None;
    plan.snapshot_copies = 1;
  }
  SECTION("versions") { plan.snapshot = Snapshot::Versions; }
  CHECK_THROWS_AS(plan.validate(architecture, "plan"), InputError);
}

TEST_CASE("the program of copies in some steps is that of copies in all, and says which") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::OptimizerSharded, Home::Gpu, Home::Gpu);
  plan.snapshot = Snapshot::Copy;
  plan.snapshot_copies = 2;
  const Program all = lower(small_profile(architecture, 1), plan);
  plan.snapshot_every = 3;
  const Program some = lower(small_profile(architecture, 1), plan);
  REQUIRE(some.operations.size() == all.operations.size());
  int rare = 0;
  for (std::int32_t i = 0; i < std::ssize(some.operations); ++i) {
    REQUIRE(some.name(i) == all.name(i));
    REQUIRE(at(some, i).waits == at(all, i).waits);
    REQUIRE(at(some, i).previous_waits == at(all, i).previous_waits);
    CHECK(all.steps_for_each(at(all, i).kind) == 1);
    rare += some.steps_for_each(at(some, i).kind) == 3 ? 1 : 0;
  }
  // Both marks, and two for each chunk: its copy and what is sent.
  CHECK(rare == 2 + 2 * std::ssize(operations_of(some, OpKind::Adam)));
}

TEST_CASE("updates that speculate roll back into the version that they wrote") {
  const Architecture architecture = architecture_of(1);
  Plan plan = plan_of(architecture, 1, Snapshot::Versions);
  plan.dtype = DataType::BFloat16;
  plan.clipping = Clipping::Speculate;
  plan.accumulation = 1;
  const Profile profile = small_profile(architecture, plan.micro_batch, plan.dtype);
  const Program program = lower(profile, plan);
  REQUIRE(find_races(program, architecture, plan).empty());
  const std::vector<std::int32_t> rollbacks = operations_of(program, OpKind::AdamRollback);
  REQUIRE_FALSE(rollbacks.empty());
  CHECK(rollbacks.back() < operations_of(program, OpKind::Mark).front());
  plan.clipping = Clipping::Wait;
  CHECK(bytes_named(program, "host ") == bytes_named(lower(profile, plan), "host "));
}

TEST_CASE("snapshots are refused where a killed step could not be done again") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
  plan.snapshot = GENERATE(Snapshot::Redo, Snapshot::Versions, Snapshot::Copy);
  const bool keeps = keeps_versions(plan.snapshot);
  CHECK_NOTHROW(plan.validate(architecture, "plan"));
  SECTION("state on the GPU") {
    if (plan.snapshot == Snapshot::Copy) return;
    plan.units[1].chunks[0] = {plan.units[1].chunks[0].count, Home::Gpu, Home::Gpu};
  }
  SECTION("state on NVMe") { plan.units[1].chunks[0].optimizer = Home::Nvme; }
  SECTION("updates by the GPU") { plan.units[1].chunks[0].gpu_adam = true; }
  SECTION("moments in bf16") {
    if (keeps) return;
    plan.adam_state = AdamState::BFloat16;
  }
  SECTION("speculation") {
    if (keeps) return;
    plan.dtype = DataType::BFloat16;
    plan.clipping = Clipping::Speculate;
  }
  CHECK_THROWS_AS(plan.validate(architecture, "plan"), InputError);
}

}  // namespace athanor
