// SPDX-License-Identifier: Apache-2.0
// Copies of state on the GPU in host memory: none changes while it is copied, and no rank writes
// over a version before all ranks have marked the next one.
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/snapshot_memory.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_update.hpp"
#include "tests/model/operations_of.hpp"
#include "tests/model/race_check.hpp"
#include "tests/model/rank_order.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace athanor {
namespace {

using test::at;
using test::operations_of;
using test::RankOperation;
using test::RankOrder;

constexpr int kRounds = 100;
constexpr int kSteps = 4;

/// A random plan with snapshots: no state in files, and none that streams.
struct Case {
  Architecture architecture;
  Plan plan;
  Profile profile;
  Program program;

  Case(std::mt19937& random, int round, Snapshot snapshot = Snapshot::Copy)
      : architecture(test::small_architecture(1 + round % 3, round % 2 == 0)),
        plan(test::random_plan(architecture, random)) {
    plan.snapshot = snapshot;
    for (UnitPlan& unit : plan.units) {
      for (ChunkRun& run : unit.chunks) keep_in_memory(run, round);
    }
    plan.validate(architecture, "plan");
    profile = test::small_profile(architecture, plan.micro_batch, plan.dtype);
    program = lower(profile, plan);
  }

  /// Every third plan has all state on the GPU.
  void keep_in_memory(ChunkRun& run, int round) const {
    const bool needs_host = keeps_versions(plan.snapshot) && plan.snapshot != Snapshot::Copy;
    if (needs_host && run.optimizer == Home::Gpu) run.optimizer = Home::Host;
    if (run.optimizer == Home::Nvme) run.optimizer = Home::Host;
    if (run.parameters == Home::Nvme) run.parameters = Home::Host;
    if (!needs_host && round % 3 == 0) run = {run.count, Home::Gpu, Home::Gpu};
    run.gpu_adam = false;
  }

  [[nodiscard]] bool copies() const { return !operations_of(program, OpKind::StateD2H).empty(); }
};

/// Operations that write over a version of the state, and how many steps before the one from which
/// the step starts that is.
struct Overwrites {
  std::vector<std::int32_t> operations;
  int age = 0;
};

std::vector<Overwrites> overwrites_of(const Program& program) {
  Overwrites updates{{}, 1}, copies{operations_of(program, OpKind::StateD2H), 2};
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    const bool is_update =
        op.kind == OpKind::AdamRollback || (op.kind == OpKind::Adam && op.beside);
    if (is_update) updates.operations.push_back(static_cast<std::int32_t>(i));
  }
  return {updates, copies};
}

/// Number of overwrites that do not follow every rank's mark of the version after the one that is
/// written over.
int count_early(const Program& program) {
  const std::int32_t mark = operations_of(program, OpKind::Mark).front();
  const int marked_by = at(program, mark).of_start ? 0 : 1;  // steps behind its version
  const RankOrder order(program, kSteps);
  int early = 0;
  for (const Overwrites& overwrites : overwrites_of(program)) {
    for (const std::int32_t operation : overwrites.operations) {
      for (int step = 2; step < kSteps; ++step) {
        const int marks = step - overwrites.age + 1 - marked_by;
        for (int writer = 0; writer < program.world_size; ++writer) {
          for (int rank = 0; rank < program.world_size; ++rank) {
            early += order.precedes({rank, marks, mark}, {writer, step, operation}) ? 0 : 1;
          }
        }
      }
    }
  }
  return early;
}

}  // namespace

TEST_CASE("nothing writes over a version before all ranks have marked the next one") {
  std::mt19937 random(5);
  int on_gpu = 0, mixed = 0, early_marks = 0, found = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Case c(random, round, round % 5 == 4 ? Snapshot::Versions : Snapshot::Copy);
    CAPTURE(round, c.plan.world_size, static_cast<int>(c.plan.clipping));
    REQUIRE(operations_of(c.program, OpKind::Mark).size() == 1);
    REQUIRE(count_early(c.program) == 0);
    if (c.plan.world_size == 1 || !c.copies()) continue;
    const bool has_host = !overwrites_of(c.program).front().operations.empty();
    (has_host ? mixed : on_gpu) += 1;
    early_marks += operations_of(c.program, OpKind::Mark).front() <
                           operations_of(c.program, OpKind::Loss).front() - 1
                       ? 1
                       : 0;
    // The check sees what is missing where ranks do not wait for a mark.
    Program loose = c.program;
    for (Operation& op : loose.operations) {
      std::erase(op.waits, operations_of(c.program, OpKind::Mark).front());
    }
    found += count_early(loose) > 0 ? 1 : 0;
  }
  CHECK(found > (on_gpu + mixed) * 3 / 4);  // some schedules separate steps anyway
  CHECK(on_gpu > 10);
  CHECK(mixed > 10);
  CHECK(early_marks > 5);
}

TEST_CASE("a mark follows all copies of its version, and all updates that made it") {
  std::mt19937 random(6);
  for (int round = 0; round < kRounds; ++round) {
    const Case c(random, round);
    if (!c.copies()) continue;
    CAPTURE(round);
    const std::int32_t mark = operations_of(c.program, OpKind::Mark).front();
    REQUIRE(at(c.program, mark).of_start);
    const RankOrder order(c.program, 2);
    const RankOperation marked{0, 1, mark};
    for (const std::int32_t copy : operations_of(c.program, OpKind::StateD2H)) {
      REQUIRE(order.precedes({0, 1, copy}, marked));
    }
    for (const OpKind kind : {OpKind::Adam, OpKind::AdamRollback, OpKind::Loss, OpKind::Norm}) {
      for (const std::int32_t made : operations_of(c.program, kind)) {
        REQUIRE(order.precedes({0, 0, made}, marked));
      }
    }
  }
}

TEST_CASE("every chunk with state on the GPU is copied once, while it does not change") {
  std::mt19937 random(7);
  for (int round = 0; round < kRounds; ++round) {
    const Case c(random, round);
    CAPTURE(round);
    REQUIRE(test::find_races(c.program, c.architecture, c.plan) == std::vector<std::string>());
    Bytes copied = 0;
    std::vector<std::pair<std::int32_t, std::int32_t>> chunks;
    for (const std::int32_t copy : operations_of(c.program, OpKind::StateD2H)) {
      const Operation& op = at(c.program, copy);
      REQUIRE(op.lane == Lane::D2H);
      copied += op.bytes;
      chunks.emplace_back(op.unit, op.chunk);
    }
    REQUIRE(std::ranges::is_sorted(chunks));
    REQUIRE(std::ranges::adjacent_find(chunks) == chunks.end());
    std::int64_t elements = 0;
    std::size_t on_gpu = 0;
    for (const std::int32_t adam : operations_of(c.program, OpKind::Adam)) {
      const Operation& op = at(c.program, adam);
      if (op.lane != Lane::Compute) continue;
      ++on_gpu;
      elements += op.elements;
    }
    REQUIRE(on_gpu == chunks.size());
    REQUIRE(copied == elements * kUpdatedBytes);
    Bytes places = 0;
    for (const Buffer& buffer : c.program.static_buffers) {
      if (!buffer.name.starts_with("copies of state")) continue;
      REQUIRE(buffer.tier == Tier::Pinned);
      places += buffer.bytes;
    }
    CHECK(places == kKeptVersions * copied);
  }
}

TEST_CASE("copies are spread over the step, so that outputs on the same lane wait little") {
  constexpr double kForward = 1, kBackward = 2, kRecompute = 1;
  const Architecture architecture = test::small_architecture(8, false);
  Plan plan = test::uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  plan.snapshot = Snapshot::Copy;
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Offload;
  const Program program = lower(test::small_profile(architecture, plan.micro_batch), plan);
  REQUIRE(operations_of(program, OpKind::OutputD2H).size() > 5);
  double all = 0, bytes = 0, largest = 0;
  for (const Operation& op : program.operations) {
    all += op.kind == OpKind::Forward     ? kForward
           : op.kind == OpKind::Recompute ? kRecompute
           : op.kind == OpKind::Backward  ? kBackward
                                          : 0;
    if (op.kind != OpKind::StateD2H) continue;
    bytes += static_cast<double>(op.bytes);
    largest = std::max(largest, static_cast<double>(op.bytes));
  }
  double passed = 0, copied = 0;
  for (const Operation& op : program.operations) {
    if (op.kind == OpKind::StateD2H) copied += static_cast<double>(op.bytes);
    if (is_unit_phase(op) && op.kind != OpKind::Recompute) {
      CHECK(copied / bytes >= passed / all - 1e-9);
      CHECK((copied - largest) / bytes <= passed / all + 1e-9);
      passed += op.kind == OpKind::Forward              ? kForward
                : op.unit + 1 == std::ssize(plan.units) ? kBackward
                                                        : kBackward + kRecompute;
    }
  }
}

TEST_CASE("without state on the GPU, copies are versions") {
  std::mt19937 random(8);
  for (int round = 0; round < 20; ++round) {
    const Case versions(random, round, Snapshot::Versions);
    Plan plan = versions.plan;
    plan.snapshot = Snapshot::Copy;
    const Program program = lower(versions.profile, plan);
    REQUIRE(program.operations.size() == versions.program.operations.size());
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
      REQUIRE(program.name(i) == versions.program.name(i));
      REQUIRE(at(program, i).waits == at(versions.program, i).waits);
      REQUIRE(at(program, i).previous_waits == at(versions.program, i).previous_waits);
    }
    REQUIRE(program.static_buffers.size() == versions.program.static_buffers.size());
  }
}

}  // namespace athanor
