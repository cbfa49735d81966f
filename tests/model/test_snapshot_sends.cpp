// SPDX-License-Identifier: Apache-2.0
// However a version is sent to the peer, all of it is: each chunk once, through a buffer that
// nothing else uses meanwhile, and before the mark that says so.
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/enum_names.hpp"
#include "tests/model/operations_of.hpp"
#include "tests/model/race_check.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

constexpr std::array kThroughBuffers{SnapshotSend::Blocking, SnapshotSend::Naive,
                                     SnapshotSend::Chunked, SnapshotSend::Pipelined};

/// A plan of several chunks a unit whose versions are copied, everything else as the round says.
Plan plan_of(const Architecture& architecture, int round, SnapshotSend send) {
  const bool sharded = round % 2 == 0;
  Plan plan = uniform_plan(architecture, 2 << (round % 2),
                           sharded ? Sharding::Sharded : Sharding::OptimizerSharded,
                           sharded ? Home::Host : Home::Gpu, Home::Host);
  plan.snapshot = Snapshot::Versions;
  plan.snapshot_copies = 2;
  plan.snapshot_send = send;
  plan.late_updates = round % 3;
  plan.accumulation = 1 + round % 2;
  plan.prefetch_depth = 1;
  plan.clipping = round % 4 < 2 ? Clipping::None : Clipping::Wait;
  if (round % 5 == 0) plan.schedule.optimizer = OptimizerStart::AfterBackward;
  if (round % 7 == 0) plan.schedule.copies = Copies::Blocking;
  return plan;
}

Program program_of(const Architecture& architecture, const Plan& plan) {
  return lower(small_profile(architecture, plan.micro_batch, plan.dtype), plan);
}

Bytes receive_buffer(const Program& program) {
  const auto found = std::ranges::find(program.static_buffers, "receive buffer", &Buffer::name);
  if (found == program.static_buffers.end()) return 0;
  CHECK(found->tier == Tier::Gpu);
  return found->bytes;
}

/// Chunks and bytes of all operations of a kind, sorted.
auto sent_by(const Program& program, OpKind kind) {
  std::vector<std::pair<std::pair<std::int32_t, std::int32_t>, Bytes>> sent;
  for (const std::int32_t i : operations_of(program, kind)) {
    const Operation& op = at(program, i);
    sent.push_back({{op.unit, op.chunk}, op.bytes});
  }
  std::ranges::sort(sent);
  return sent;
}

}  // namespace

TEST_CASE("every scheme sends each chunk once, and stores it before the mark") {
  for (int round = 0; round < 30; ++round) {
    const Architecture architecture = small_architecture(2 + round % 4, round % 3 == 0);
    const Program direct =
        program_of(architecture, plan_of(architecture, round, SnapshotSend::Direct));
    CHECK(operations_of(direct, OpKind::PeerStore).empty());
    CHECK(receive_buffer(direct) == 0);
    for (const SnapshotSend send : kThroughBuffers) {
      CAPTURE(round, name_of(kSnapshotSendNames, send));
      const Plan plan = plan_of(architecture, round, send);
      const Program program = program_of(architecture, plan);
      REQUIRE(find_races(program, architecture, plan).empty());
      REQUIRE(sent_by(program, OpKind::PeerCopy) == sent_by(direct, OpKind::PeerCopy));
      REQUIRE(sent_by(program, OpKind::PeerStore) == sent_by(direct, OpKind::PeerCopy));
      const auto copies = operations_of(program, OpKind::PeerCopy);
      const auto stores = operations_of(program, OpKind::PeerStore);
      for (std::size_t i = 0; i < copies.size(); ++i) {
        const Operation& store = at(program, stores[i]);
        REQUIRE(store.lane == Lane::D2H);
        REQUIRE(store.receive_offset == at(program, copies[i]).receive_offset);
        REQUIRE(std::ranges::count(store.waits, copies[i]) == 1);
        REQUIRE(store.receive_offset >= 0);
        REQUIRE(store.receive_offset + store.bytes <= program.receive_bytes);
      }
      const auto marks = operations_of(program, OpKind::PeerMark);
      REQUIRE(marks.size() == 1);
      CHECK(std::ranges::count(at(program, marks.front()).waits, stores.back()) == 1);
      CHECK(marks.front() < operations_of(program, OpKind::Reduce).front());
    }
  }
}

TEST_CASE("the receive buffer is as large as the scheme needs, to the byte") {
  for (int round = 0; round < 12; ++round) {
    const Architecture architecture = small_architecture(2 + round % 4, round % 3 == 0);
    const auto buffer = [&](SnapshotSend send) {
      return receive_buffer(program_of(architecture, plan_of(architecture, round, send)));
    };
    const Program program =
        program_of(architecture, plan_of(architecture, round, SnapshotSend::Direct));
    Bytes all = 0, largest = 0;
    for (const auto& [chunk, bytes] : sent_by(program, OpKind::PeerCopy)) {
      all += bytes;
      largest = std::max(largest, bytes);
    }
    CAPTURE(round);
    REQUIRE(all > 2 * largest);
    CHECK(buffer(SnapshotSend::Naive) == all);
    CHECK(buffer(SnapshotSend::Blocking) == largest);
    CHECK(buffer(SnapshotSend::Chunked) == largest);
    CHECK(buffer(SnapshotSend::Pipelined) == 2 * largest);
  }
}

TEST_CASE("chunks that may be in buffers at once do not overlap") {
  const Architecture architecture = small_architecture(4, false);
  for (const SnapshotSend send : kThroughBuffers) {
    CAPTURE(name_of(kSnapshotSendNames, send));
    const Program program = program_of(architecture, plan_of(architecture, 1, send));
    const auto copies = operations_of(program, OpKind::PeerCopy);
    const int buffers = program.receive_buffers;
    CHECK(buffers == (send == SnapshotSend::Naive       ? std::ssize(copies)
                      : send == SnapshotSend::Pipelined ? 2
                                                        : 1));
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const Operation& later = at(program, copies[i]);
      for (std::size_t k = i - std::min<std::size_t>(i, static_cast<std::size_t>(buffers) - 1);
           k < i; ++k) {
        const Operation& earlier = at(program, copies[k]);
        CHECK((earlier.receive_offset + earlier.bytes <= later.receive_offset ||
               later.receive_offset + later.bytes <= earlier.receive_offset));
      }
    }
  }
}

TEST_CASE("blocking sends begin after the step's updates, and training waits for their mark") {
  for (int round = 0; round < 12; ++round) {
    const Architecture architecture = small_architecture(3, false);
    const Program program =
        program_of(architecture, plan_of(architecture, round, SnapshotSend::Blocking));
    CAPTURE(round);
    const Operation& first = at(program, operations_of(program, OpKind::PeerCopy).front());
    const auto mark = operations_of(program, OpKind::Mark).front();
    CHECK(std::ranges::count(first.previous_waits, mark) >= 1);
    const auto forward = operations_of(program, OpKind::Forward).front();
    const auto peer_mark = operations_of(program, OpKind::PeerMark).front();
    CHECK(std::ranges::count(at(program, forward).waits, peer_mark) == 1);
    CHECK(std::ranges::all_of(operations_of(program, OpKind::Gather),
                              [&](std::int32_t gather) { return gather > peer_mark; }));
  }
}

TEST_CASE("an evaluation sends nothing to peers") {
  const Architecture architecture = small_architecture(3, false);
  const Plan plan = plan_of(architecture, 0, GENERATE(from_range(kThroughBuffers)));
  const Program program =
      lower_evaluation(small_profile(architecture, plan.micro_batch, plan.dtype), plan);
  CHECK(operations_of(program, OpKind::PeerCopy).empty());
  CHECK(operations_of(program, OpKind::PeerMark).empty());
}

TEST_CASE("a plan file keeps how copies are sent, and refuses a scheme without copies") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = plan_of(architecture, 0, SnapshotSend::Direct);
  CHECK(to_json(plan).find("snapshot_send") == std::string::npos);
  for (const SnapshotSend send : kThroughBuffers) {
    plan.snapshot_send = send;
    CHECK(parse_plan(to_json(plan), "input.json").snapshot_send == send);
  }
  CHECK_NOTHROW(plan.validate(architecture, "plan"));
  plan.snapshot_copies = 1;
  CHECK_THROWS_AS(plan.validate(architecture, "plan"), InputError);
}

}  // namespace athanor
