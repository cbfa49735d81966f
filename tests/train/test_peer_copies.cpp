// SPDX-License-Identifier: Apache-2.0
// A peer's copy has the bytes of its owner's version, at every step, and comes back as these bytes
// or not at all.
#include "executor/backend/host_device.hpp"
#include "executor/ranks/collectives_mesh.hpp"
#include "executor/snapshot/peer_copies.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "executor/snapshot/snapshot_log.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/cut_off.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr const char* kRun = "0123456789abcdef";

/// All state on the host, or with Snapshot::Copy every other unit's on the device: all units' where
/// one of several steps copies.
Plan copies_plan(const Architecture& architecture, DataType dtype, Snapshot snapshot,
                 SnapshotSend send, int every) {
  Plan plan = uniform_plan(architecture, 2, 1, Sharding::OptimizerSharded, Home::Gpu, Home::Host,
                           Activation::Keep, 30000);
  plan.dtype = dtype;
  plan.snapshot = snapshot;
  plan.snapshot_every = every;
  const std::size_t apart = every > 1 ? 1 : 2;
  for (std::size_t unit = 0; unit < plan.units.size() && snapshot == Snapshot::Copy;
       unit += apart) {
    for (ChunkRun& run : plan.units[unit].chunks) run.optimizer = Home::Gpu;
  }
  plan.snapshot_copies = 2;
  plan.snapshot_send = send;
  return plan;
}

/// Memory of one of two ranks, each the other's peer.
struct Rank {
  Rank(int rank, Descriptor link, const Program& program, const Plan& plan,
       const std::string& folder)
      : number(rank),
        shared(SharedMemory::create(memory_path(folder, kRun, rank),
                                    shared_bytes(static_bytes(program)))),
        pools(program, plan, rank, device, "", &shared),
        log(pools, program, plan) {
    std::vector<Descriptor> links(2);
    links[static_cast<std::size_t>(1 - rank)] = std::move(link);
    ranks = make_mesh_collectives(std::make_shared<const Mesh>(rank, std::move(links)));
    peers.emplace(*ranks, PeerRanks{1 - rank, 1 - rank}, log, pools, program);
    log.begin({.run = kRun, .rank = rank, .world_size = 2}, "text", 0);
  }

  int number;
  HostDevice device;
  SharedMemory shared;
  MemoryPools pools;
  SnapshotLog log;
  std::unique_ptr<HostCollectives> ranks;
  std::optional<PeerCopies> peers;
};

class TwoRanks {
 public:
  explicit TwoRanks(DataType dtype, Snapshot snapshot = Snapshot::Versions,
                    SnapshotSend send = SnapshotSend::Direct, int every = 1)
      : architecture_(tiny_gpt2()),
        plan_(copies_plan(architecture_, dtype, snapshot, send, every)),
        program_(lower(unmeasured_profile(architecture_, dtype, kSequence, 1), plan_)) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    for (int rank = 0; rank < 2; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(rank, Descriptor(ends.at(rank)), program_, plan_,
                                              folder_.path().string()));
    }
  }

  [[nodiscard]] Rank& operator[](int rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }
  /// Calls `call` of both ranks at once.
  void both(const std::function<void(Rank&)>& call) {
    auto other = std::async(std::launch::async, [&] { call((*this)[1]); });
    call((*this)[0]);
    other.get();
  }
  /// Writes a rank's version, all of its numbers from `seed`.
  void write_version(Rank& rank, std::int64_t steps, unsigned seed) const {
    fill_state(rank.pools, program_, steps, rank.device, seed);
    for (const Operation& op : program_.operations) {
      if (op.kind != OpKind::StateD2H) continue;
      const ChunkMemory& memory = rank.pools.chunk(op.unit, op.chunk);
      for_each_state_array(memory.copy_after(steps), memory.state, memory.elements,
                           []<typename Value>(Value* to, const Value* from, std::int64_t count) {
                             std::copy_n(from, count, to);
                           });
    }
  }
  /// Writes versions of both ranks that differ in every number, and copies them.
  void step(std::int64_t steps) {
    both([&](Rank& rank) {
      write_version(rank, steps, static_cast<unsigned>(100 * rank.number + steps));
      for (const Operation& op : program_.operations) {
        if (op.kind == OpKind::PeerCopy) rank.peers->copy(op, steps);
        if (op.kind == OpKind::PeerStore) rank.peers->store(op, steps, rank.device);
        if (op.kind == OpKind::PeerMark) rank.peers->note_copy(steps);
      }
    });
  }
  /// The first operation of a kind.
  [[nodiscard]] const Operation& first(OpKind kind) const {
    const auto found = std::ranges::find(program_.operations, kind, &Operation::kind);
    REQUIRE(found != program_.operations.end());
    return *found;
  }
  void for_each_chunk(const std::function<void(std::int32_t, std::int32_t)>& call) const {
    for (std::size_t unit = 0; unit < program_.layouts.size(); ++unit) {
      const auto chunks = std::ssize(program_.layouts[unit].chunks);
      for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
        call(static_cast<std::int32_t>(unit), chunk);
      }
    }
  }
  /// Requires that the copies of six versions, one for each of so many steps, are their owner's
  /// bytes, and that each leaves the one before as it was.
  void check_copies(std::int64_t every) {
    std::string before;
    for (std::int64_t steps = every; steps <= 6 * every; steps += every) {
      step(steps);
      const std::string own = bytes_of(0, steps, false);
      REQUIRE((bytes_of(1, steps, true) == own));  // no bytes in the report
      REQUIRE((own != bytes_of(1, steps, false)));
      REQUIRE((own != before));
      if (steps > every) {
        REQUIRE((bytes_of(1, steps - every, true) == before));
        REQUIRE((bytes_of(0, steps - every, false) == before));
      }
      before = own;
      const SnapshotSummary summary = read_snapshot_summary((*this)[1].shared.path());
      REQUIRE(summary.copies.size() == (steps == every ? 1U : 2U));
      for (const CopySummary& copy : summary.copies) REQUIRE(copy.owner == 0);
    }
  }
  /// All bytes of a rank's version, or of the copy that it keeps.
  [[nodiscard]] std::string bytes_of(int rank, std::int64_t steps, bool of_ward) {
    std::string all;
    for_each_chunk([&](std::int32_t unit, std::int32_t chunk) {
      const ChunkMemory& memory = (*this)[rank].pools.chunk(unit, chunk);
      const AdamStateView& state = of_ward ? memory.ward_after(steps) : memory.version_after(steps);
      const auto add = [&]<typename Value>(const Value* array) {
        if (array == nullptr) return;
        all.append(reinterpret_cast<const char*>(array),
                   static_cast<std::size_t>(memory.elements) * sizeof(Value));
      };
      add(state.master);
      add(state.parameters);
      add(state.rests);
      add(state.first_moment);
      add(state.second_moment);
    });
    return all;
  }

 private:
  TemporaryFolder folder_;
  Architecture architecture_;
  Plan plan_;
  Program program_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace

TEST_CASE("a copy equals its owner's version at every step, and the version before stays") {
  TwoRanks ranks(GENERATE(DataType::Float32, DataType::BFloat16),
                 GENERATE(Snapshot::Versions, Snapshot::Copy),
                 GENERATE(SnapshotSend::Direct, SnapshotSend::Blocking, SnapshotSend::Naive,
                          SnapshotSend::Chunked, SnapshotSend::Pipelined));
  ranks.check_copies(1);
}

TEST_CASE("of copies in some steps, too, each has its place, its mark and its record") {
  constexpr int kEvery = 4;
  TwoRanks ranks(DataType::BFloat16, Snapshot::Copy,
                 GENERATE(SnapshotSend::Direct, SnapshotSend::Pipelined), kEvery);
  ranks.check_copies(kEvery);
  Rank& rank = ranks[0];
  const std::vector<double> losses(rank.log.mark(0).losses.size(), 0.25);
  for (int version = 1; version <= 6; ++version) {
    rank.log.note_version(version * kEvery, {.step = version * kEvery}, {.norm = 3}, losses);
    const SnapshotSummary summary = read_snapshot_summary(rank.shared.path());
    REQUIRE(summary.steps == version * kEvery);
    REQUIRE(summary.every == kEvery);
    for (int kept = std::max(1, version - kSnapshotMarks + 1); kept <= version; ++kept) {
      REQUIRE_FALSE(rank.log.losses(kept * kEvery).empty());
    }
  }
  CHECK(rank.log.losses(5 * kEvery + 1).empty());
  CHECK(rank.log.keeps_version(5 * kEvery));
  CHECK_FALSE(rank.log.keeps_version(5 * kEvery + 1));
  CHECK_THROWS_AS(rank.log.go_back_to_version(4 * kEvery), Error);  // it is written over by now
  rank.log.go_back_to_version(5 * kEvery);
  CHECK(read_snapshot_summary(rank.shared.path()).steps == 5 * kEvery);
}

TEST_CASE("a copy that is being written over is none, and the one before it is still there") {
  const SnapshotSend send = GENERATE(SnapshotSend::Direct, SnapshotSend::Pipelined);
  TwoRanks ranks(DataType::BFloat16, GENERATE(Snapshot::Versions, Snapshot::Copy), send);
  ranks.step(1);
  ranks.step(2);
  ranks.both([&](Rank& rank) { rank.peers->copy(ranks.first(OpKind::PeerCopy), 3); });
  const SnapshotSummary summary = read_snapshot_summary(ranks[0].shared.path());
  REQUIRE(summary.copies.size() == 1);
  CHECK(summary.copies.front().steps == 2);
}

TEST_CASE("a lost rank gets its version and its marks back, or says that the copy is damaged") {
  TwoRanks ranks(GENERATE(DataType::Float32, DataType::BFloat16),
                 GENERATE(Snapshot::Versions, Snapshot::Copy));
  ranks.step(1);
  ranks.step(2);
  const std::string own = ranks.bytes_of(1, 2, false);
  const std::vector<double> losses(ranks[0].log.mark(0).losses.size(), 0.25);
  ranks[0].log.note_version(2, {.step = 2}, {.norm = 3}, losses);
  ranks.both([&](Rank& rank) {
    if (rank.number == 1) ranks.write_version(rank, 2, 99);
  });
  REQUIRE((ranks.bytes_of(1, 2, false) != own));
  const auto restore = [&](Rank& rank) {
    if (rank.number == 1) rank.log.spoil();
    const std::int64_t loaded = rank.peers->restore(2, {false, true});
    if (rank.number == 0) return;
    rank.log.begin_with_marks({.run = kRun, .rank = 1, .world_size = 2}, "text", loaded);
  };
  SECTION("whole") {
    ranks.both(restore);
    CHECK((ranks.bytes_of(1, 2, false) == own));
    CHECK(read_snapshot_summary(ranks[1].shared.path()).steps == 2);
    REQUIRE_FALSE(ranks[1].log.losses(2).empty());
    CHECK(ranks[1].log.losses(2).front() == 0.25);
    CHECK(ranks[1].log.mark(2).clipping->norm == 3);
  }
  SECTION("damaged") {
    // In the last chunk: who waits for the rest would wait for ever.
    std::int32_t unit = 0, chunk = 0;
    ranks.for_each_chunk([&](std::int32_t u, std::int32_t c) { unit = u, chunk = c; });
    const ChunkMemory& memory = ranks[0].pools.chunk(unit, chunk);
    *reinterpret_cast<std::byte*>(memory.ward_after(2).second_moment) ^= std::byte{1};
    CHECK_THROWS_AS(ranks.both(restore), Error);
    CHECK_THROWS_AS(read_snapshot_summary(ranks[1].shared.path()), Error);
  }
}
