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

  Case(std::mt19937& random, int round, Snapshot snapshot = Snapshot::Copy, int copies = 1)
      : architecture(test::small_architecture(1 + round % 3, round % 2 == 0)),
        plan(test::random_plan(architecture, random)) {
    plan.snapshot = snapshot;
    if (copies > 1 && plan.world_size > 1) {
      plan.snapshot_copies = copies;
      plan.snapshot_send = static_cast<SnapshotSend>(round % 5);
    }
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
  Overwrites of_ward{operations_of(program, OpKind::PeerCopy), 2};
  const std::vector<std::int32_t> stores = operations_of(program, OpKind::PeerStore);
  if (!stores.empty()) of_ward.operations = stores;  // copies come into buffers
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    const bool is_update =
        op.kind == OpKind::AdamRollback || (op.kind == OpKind::Adam && op.beside);
    if (is_update) updates.operations.push_back(static_cast<std::int32_t>(i));
  }
  return {updates, copies, of_ward};
}

/// An operation that says that a version is whole: the rank's own, or the copy of its ward's.
struct VersionMark {
  std::int32_t operation = 0;
  int steps_after = 0;  ///< steps of which that version is behind the operation's
};

std::vector<VersionMark> marks_of(const Program& program) {
  std::vector<VersionMark> marks;
  for (const std::int32_t mark : operations_of(program, OpKind::Mark)) {
    marks.push_back({mark, at(program, mark).of_start ? 0 : 1});
  }
  for (const std::int32_t mark : operations_of(program, OpKind::PeerMark)) {
    marks.push_back({mark, 0});
  }
  return marks;
}

/// Number of overwrites that do not follow all marks, on every rank, of the version after the one
/// that is written over.
int count_early(const Program& program) {
  const RankOrder order(program, kSteps);
  int early = 0;
  for (const Overwrites& overwrites : overwrites_of(program)) {
    for (const std::int32_t operation : overwrites.operations) {
      for (const VersionMark& mark : marks_of(program)) {
        for (int step = 2; step < kSteps; ++step) {
          const int marked = step - overwrites.age + 1 - mark.steps_after;
          for (int writer = 0; writer < program.world_size; ++writer) {
            for (int rank = 0; rank < program.world_size; ++rank) {
              const RankOperation noted{rank, marked, mark.operation};
              early += order.precedes(noted, {writer, step, operation}) ? 0 : 1;
            }
          }
        }
      }
    }
  }
  return early;
}

/// Requires that every chunk that some rank alone has is sent once, what is on the GPU after its
/// copy, and that the ward's have two places. Counts what is sent.
void require_all_sent(const Case& c, int& from_gpu, int& from_host) {
  const std::int32_t peer_mark = operations_of(c.program, OpKind::PeerMark).front();
  std::vector<std::pair<std::int32_t, std::int32_t>> sent, expected;
  Bytes bytes = 0, places = 0;
  for (const std::int32_t copy : operations_of(c.program, OpKind::PeerCopy)) {
    const Operation& op = at(c.program, copy);
    REQUIRE(copy < peer_mark);
    sent.emplace_back(op.unit, op.chunk);
    bytes += op.bytes;
    const auto copied = std::ranges::find_if(
        op.waits, [&](std::int32_t wait) { return at(c.program, wait).kind == OpKind::StateD2H; });
    if (copied == op.waits.end()) {
      ++from_host;
      continue;
    }
    ++from_gpu;
    REQUIRE(at(c.program, *copied).unit == op.unit);
    REQUIRE(at(c.program, *copied).chunk == op.chunk);
  }
  for (std::int32_t unit = 0; unit < std::ssize(c.plan.units); ++unit) {
    const auto u = static_cast<std::size_t>(unit);
    if (c.plan.units[u].sharding == Sharding::Replicated) continue;
    for (std::int32_t chunk = 0; chunk < std::ssize(c.program.layouts[u].chunks); ++chunk) {
      expected.emplace_back(unit, chunk);
    }
  }
  std::ranges::sort(sent);
  REQUIRE(sent == expected);
  for (const Buffer& buffer : c.program.static_buffers) {
    if (!buffer.name.starts_with("copies for the ward")) continue;
    REQUIRE(buffer.tier == Tier::Host);
    places += buffer.bytes;
  }
  CHECK(places == kKeptVersions * bytes);
}

}  // namespace

TEST_CASE("nothing writes over a version before all ranks have marked the next one") {
  std::mt19937 random(5);
  int on_gpu = 0, mixed = 0, early_marks = 0, found = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Case c(random, round, round % 5 == 4 ? Snapshot::Versions : Snapshot::Copy,
                 1 + round / 10 % 2);
    CAPTURE(round, c.plan.world_size, c.plan.snapshot_copies, static_cast<int>(c.plan.clipping));
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

TEST_CASE("the peer gets each version whole before all ranks go on to write over the one before") {
  std::mt19937 random(9);
  int sent_from_gpu = 0, sent_from_host = 0, found = 0, programs = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Case c(random, round, Snapshot::Copy, 2);
    if (!c.copies() || c.plan.world_size == 1) continue;
    CAPTURE(round, c.plan.world_size, static_cast<int>(c.plan.snapshot_send));
    REQUIRE(test::find_races(c.program, c.architecture, c.plan) == std::vector<std::string>());
    REQUIRE(count_early(c.program) == 0);
    const std::vector<std::int32_t> peer_marks = operations_of(c.program, OpKind::PeerMark);
    REQUIRE(peer_marks.size() == 1);
    REQUIRE(std::ranges::count(at(c.program, peer_marks.front()).waits,
                               operations_of(c.program, OpKind::Mark).front()) == 1);
    require_all_sent(c, sent_from_gpu, sent_from_host);
    // The check sees what is missing where the gate does not follow the peer's mark.
    Program loose = c.program;
    Operation& mark = loose.operations[static_cast<std::size_t>(peer_marks.front())];
    mark.lane = Lane::NvmeRead;
    found += count_early(loose) > 0 ? 1 : 0;
    ++programs;
  }
  CHECK(programs > 30);
  CHECK(found > programs / 2);  // some schedules separate steps anyway
  CHECK(sent_from_gpu > 100);
  CHECK(sent_from_host > 50);
}

TEST_CASE("blocking sends take copies of state on the GPU along, and training waits for them") {
  std::mt19937 random(10);
  int programs = 0;
  for (int round = 3; round < kRounds; round += 5) {  // kRounds of other schemes are elsewhere
    Case c(random, round, Snapshot::Copy, 2);
    if (!c.copies() || c.plan.world_size == 1) continue;
    c.plan.snapshot_send = SnapshotSend::Blocking;
    c.program = lower(c.profile, c.plan);
    CAPTURE(round);
    REQUIRE(count_early(c.program) == 0);
    const std::int32_t peer_mark = operations_of(c.program, OpKind::PeerMark).front();
    const std::int32_t forward = operations_of(c.program, OpKind::Forward).front();
    REQUIRE(std::ranges::count(at(c.program, forward).waits, peer_mark) == 1);
    const RankOrder order(c.program, 2);
    const std::int32_t first = operations_of(c.program, OpKind::StateD2H).front();
    for (const std::int32_t copy : operations_of(c.program, OpKind::StateD2H)) {
      REQUIRE(order.precedes({0, 1, copy}, {0, 1, forward}));
    }
    for (const std::int32_t update : operations_of(c.program, OpKind::Adam)) {
      REQUIRE(order.precedes({0, 0, update}, {0, 1, first}));
    }
    ++programs;
  }
  CHECK(programs > 5);
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
