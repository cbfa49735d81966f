// SPDX-License-Identifier: Apache-2.0
// Tests the schemes by which versions are sent to peers in closed form, as GEMINI (SOSP 2023)
// compares them, and their order on random machines.
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/enum_names.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr int kUnits = 5;
constexpr Seconds kForward = 1, kBackward = 3;
constexpr Seconds kTraining = kUnits * (kForward + kBackward);
constexpr double kExact = 1e-9;

/// Two nodes of one rank each. Training computes, and takes no time for anything else. A chunk is
/// on the link for `send` and copied out of its buffer in `store`. Where state is on the GPU, its
/// copy to the host takes as long as that.
struct Sends {
  Program program;
  Platform platform = test::cluster(test::plain_platform(), 1);

  Sends(SnapshotSend scheme, Seconds send, Seconds store, Home optimizer = Home::Host) {
    const Architecture architecture = test::equal_units(kUnits);
    Plan plan =
        test::uniform_plan(architecture, 2, Sharding::OptimizerSharded, Home::Gpu, optimizer);
    plan.snapshot = off_gpu(optimizer) ? Snapshot::Versions : Snapshot::Copy;
    plan.snapshot_copies = 2;
    plan.snapshot_send = scheme;
    plan.gradient_buffers = kUnits;
    program = lower(test::small_profile(architecture, 1), plan);
    Bytes chunk = 0;
    for (Operation& op : program.operations) {
      op.compute_seconds = op.kind == OpKind::Backward ? kBackward : kForward;
      const bool is_sent = op.kind == OpKind::PeerCopy || op.kind == OpKind::PeerStore ||
                           op.kind == OpKind::StateD2H;
      if (is_sent) {
        chunk = op.bytes;
      } else {
        op.bytes = 0;
      }
    }
    const auto bytes = static_cast<double>(chunk);
    platform.network->nics = 1;
    platform.network->latency = 0;
    platform.network->bytes_per_second = bytes / send;
    platform.d2h = {{{0, 0, 0}, {bytes, store, 0}}};
    platform.h2d = {{{0, 0, 0}, {bytes, 0, 0}}};
    platform.cpu_adam[1] = platform.device_adam = {{{1, 0, 0}, {2, 0, 0}}};
  }

  [[nodiscard]] Timeline timeline() { return Engine(platform, 2).simulate(program); }
};

Seconds step(SnapshotSend scheme, Seconds send, Seconds store) {
  return Sends(scheme, send, store).timeline().step_seconds;
}

/// Pairs of a copy and the store of another chunk that run at once on rank 0.
int overlaps(const Sends& sends, const Timeline& timeline) {
  int count = 0;
  for (const Interval& copy : timeline.intervals) {
    const auto kind = [&](const Interval& interval) {
      return sends.program.operations[static_cast<std::size_t>(interval.operation)].kind;
    };
    if (copy.rank != 0 || kind(copy) != OpKind::PeerCopy) continue;
    for (const Interval& store : timeline.intervals) {
      if (store.rank != 0 || kind(store) != OpKind::PeerStore) continue;
      count += copy.start < store.end - kExact && store.start < copy.end - kExact ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("the step under each scheme is that of its closed form") {
  // Link and copies to the host: both fit beside training; either is the slower one; the link alone
  // takes longer than a step.
  for (const auto& [send, store] : {std::pair<Seconds, Seconds>{1, 1}, {4, 2}, {2, 4}, {6, 1}}) {
    CAPTURE(send, store);
    const Seconds in_a_row = kUnits * (send + store);
    const Seconds in_a_pipe = send + (kUnits - 1) * std::max(send, store) + store;
    CHECK_THAT(step(SnapshotSend::Direct, send, store),
               WithinRel(std::max(kTraining, kUnits * send), kExact));
    CHECK_THAT(step(SnapshotSend::Blocking, send, store), WithinRel(kTraining + in_a_row, kExact));
    CHECK_THAT(step(SnapshotSend::Chunked, send, store),
               WithinRel(std::max(kTraining, in_a_row), kExact));
    CHECK_THAT(step(SnapshotSend::Pipelined, send, store),
               WithinRel(std::max(kTraining, in_a_pipe), kExact));
    CHECK_THAT(step(SnapshotSend::Naive, send, store),
               WithinRel(std::max(kTraining, in_a_pipe), kExact));
  }
}

TEST_CASE("copies of state on the GPU are sent beside training, or make it as long as they take") {
  const auto seconds = [](SnapshotSend scheme, Seconds send, Seconds copy) {
    return Sends(scheme, send, copy, Home::Gpu).timeline().step_seconds;
  };
  CHECK_THAT(seconds(SnapshotSend::Direct, 1, 1), WithinRel(kTraining, kExact));
  CHECK_THAT(seconds(SnapshotSend::Direct, 2, 0.5), WithinRel(kTraining, kExact));
  // The first of them goes down alone, or the last is sent alone.
  CHECK_THAT(seconds(SnapshotSend::Direct, 30, 1), WithinRel(kUnits * 30 + 1, kExact));
  CHECK_THAT(seconds(SnapshotSend::Direct, 1, 30), WithinRel(kUnits * 30 + 1, kExact));
  for (const auto& [send, copy] : {std::pair<Seconds, Seconds>{1, 1}, {4, 2}, {2, 4}}) {
    CAPTURE(send, copy);
    // Each is copied, sent, and stored.
    CHECK_THAT(seconds(SnapshotSend::Blocking, send, copy),
               WithinRel(kTraining + kUnits * (copy + send + copy), kExact));
  }
}

TEST_CASE("a chunk comes while another is copied out where there are two buffers") {
  const auto overlaps_of = [](SnapshotSend scheme) {
    Sends sends(scheme, 2, 2);
    const Timeline timeline = sends.timeline();
    return overlaps(sends, timeline);
  };
  CHECK(overlaps_of(SnapshotSend::Chunked) == 0);
  CHECK(overlaps_of(SnapshotSend::Blocking) == 0);
  CHECK(overlaps_of(SnapshotSend::Pipelined) >= kUnits - 1);
}

TEST_CASE("no scheme is faster than direct, nor chunks than a pipeline, nor blocking than chunks") {
  std::mt19937 random(51);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  std::map<SnapshotSend, int> slower;
  for (int round = 0; round < 40; ++round) {
    const Architecture architecture = test::small_architecture(2 + round % 4, round % 3 == 0);
    const bool sharded = round % 2 == 0;
    Plan plan = test::uniform_plan(architecture, 4,
                                   sharded ? Sharding::Sharded : Sharding::OptimizerSharded,
                                   sharded ? Home::Host : Home::Gpu, Home::Host);
    plan.snapshot = Snapshot::Versions;
    plan.snapshot_copies = 2;
    plan.late_updates = round % 3;
    plan.accumulation = 1 + round % 2;
    plan.clipping = round % 4 < 2 ? Clipping::None : Clipping::Wait;
    Platform platform = test::cluster(test::plain_platform(), 2);
    platform.network->bytes_per_second = 1e9 * draw(0.01, 3);
    const double per_byte = 1e-9 * draw(0.1, 10);
    platform.d2h = {{{0, 0, 0}, {1e9, 1e9 * per_byte, 0}}};
    const double faster = draw(0.1, 3);  // computation beside copies
    const auto seconds = [&](SnapshotSend send) {
      plan.snapshot_send = send;
      Program program = lower(test::small_profile(architecture, 1), plan);
      for (Operation& op : program.operations) op.compute_seconds *= faster * 1e-5;
      return Engine(platform, 4).simulate(program, {.record_intervals = false}).step_seconds;
    };
    CAPTURE(round);
    constexpr SnapshotSend kOrder[]{SnapshotSend::Direct, SnapshotSend::Pipelined,
                                    SnapshotSend::Chunked, SnapshotSend::Blocking};
    Seconds before = 0;
    for (const SnapshotSend send : kOrder) {
      CAPTURE(name_of(kSnapshotSendNames, send));
      const Seconds after = seconds(send);
      REQUIRE(after >= before * (1 - kExact));
      slower[send] += after > before * (1 + 1e-3) ? 1 : 0;
      before = after;
    }
    CHECK(seconds(SnapshotSend::Naive) >= seconds(SnapshotSend::Direct) * (1 - kExact));
  }
  // The machines are such that the schemes differ.
  CHECK(slower[SnapshotSend::Pipelined] > 5);
  CHECK(slower[SnapshotSend::Chunked] > 5);
  CHECK(slower[SnapshotSend::Blocking] > 20);
}

}  // namespace athanor
