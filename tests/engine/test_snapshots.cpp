// SPDX-License-Identifier: Apache-2.0
// Tests the cost of a snapshot of every step in closed form: a redo log lets no update run beside
// backward, versions hold none back, and copies of state on the GPU cost what the step has no time
// for.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

constexpr int kUnits = 5;
constexpr std::int64_t kElements = 32;
constexpr Seconds kForward = 1, kBackward = 3, kAdam = 2;
constexpr double kExact = 1e-9;

struct Snapshots {
  Architecture architecture;
  Plan plan;
  Program program;
  Platform platform = test::plain_platform();

  explicit Snapshots(Snapshot snapshot, Home optimizer = Home::Host) {
    architecture.name = "equal";
    for (int i = 0; i < kUnits; ++i) {
      architecture.units.push_back(
          {"unit." + std::to_string(i), "unit", {{"weight", {kElements}}}, {}});
    }
    plan = test::uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, optimizer);
    plan.snapshot = snapshot;
    plan.gradient_buffers = kUnits;
    program = lower(test::small_profile(architecture, 1), plan);
    for (Operation& op : program.operations) {
      op.compute_seconds = op.kind == OpKind::Backward ? kBackward : kForward;
      if (op.kind == OpKind::Reduce) op.bytes = 0;
    }
    platform.h2d = platform.d2h = {{{1, 0, 0}, {2, 0, 0}}};
    platform.cpu_adam[1] = platform.device_adam = {{{1, kAdam, 0}, {2, kAdam, 0}}};
  }

  [[nodiscard]] Timeline timeline() { return Engine(platform, 1).simulate(program); }
};

/// Start or end of the operations of one kind by unit, in the last step of a timeline.
std::map<std::int32_t, Seconds> times(const Snapshots& s, const Timeline& timeline, OpKind kind,
                                      Seconds Interval::* time) {
  std::int32_t last = 0;
  for (const Interval& interval : timeline.intervals) last = std::max(last, interval.step);
  std::map<std::int32_t, Seconds> found;
  for (const Interval& interval : timeline.intervals) {
    const Operation& op = s.program.operations[static_cast<std::size_t>(interval.operation)];
    if (interval.step == last && op.kind == kind) found[op.unit] = interval.*time;
  }
  return found;
}

}  // namespace

TEST_CASE("with versions the CPU updates each unit when its backward ends") {
  Snapshots versions(Snapshot::Versions);
  const Timeline timeline = versions.timeline();
  const auto backward = times(versions, timeline, OpKind::Backward, &Interval::end);
  const auto update = times(versions, timeline, OpKind::Adam, &Interval::start);
  REQUIRE(update.size() == kUnits);
  for (const auto& [unit, start] : update) CHECK_THAT(start, WithinAbs(backward.at(unit), kExact));
  // Only the first unit's update is left when backward ends.
  CHECK_THAT(timeline.step_seconds, WithinRel(kUnits * (kForward + kBackward) + kAdam, kExact));
  Snapshots none(Snapshot::None);
  CHECK_THAT(none.timeline().step_seconds, WithinRel(timeline.step_seconds, kExact));
}

TEST_CASE("with a redo log the CPU updates when backward has ended") {
  Snapshots redo(Snapshot::Redo);
  const Timeline timeline = redo.timeline();
  const auto backward = times(redo, timeline, OpKind::Backward, &Interval::end);
  for (const auto& [unit, start] : times(redo, timeline, OpKind::Adam, &Interval::start)) {
    CHECK(start >= backward.at(0) - kExact);
  }
  // The last unit's forward waits for the last update.
  CHECK_THAT(timeline.step_seconds, WithinRel(kUnits * (kBackward + kAdam) + kForward, kExact));
}

TEST_CASE("a version that is written beside the last takes as long as was measured") {
  Snapshots versions(Snapshot::Versions);
  constexpr Seconds kBeside = 2.5;
  versions.platform.cpu_adam_beside[1] = {{{1, kBeside, 0}, {2, kBeside, 0}}};
  CHECK_THAT(versions.timeline().step_seconds,
             WithinRel(kUnits * (kForward + kBackward) + kBeside, kExact));
}

TEST_CASE("copies of state on the GPU cost what forward, backward and updates have no time for") {
  Snapshots none(Snapshot::None, Home::Gpu);
  const Seconds without = none.timeline().step_seconds;
  CHECK_THAT(without, WithinRel(kUnits * (kForward + kBackward + kAdam), kExact));
  for (const Seconds copy : {0.5, 3.9, 5.9, 6.1, 9.0, 30.0}) {
    CAPTURE(copy);
    Snapshots copies(Snapshot::Copy, Home::Gpu);
    copies.platform.d2h = {{{1, copy, 0}, {2, copy, 0}}};
    const Timeline timeline = copies.timeline();
    // A unit's copy follows its update in the step before, and precedes the one in this step.
    CHECK_THAT(timeline.step_seconds, WithinRel(std::max(without, kUnits * copy), kExact));
    const auto end = times(copies, timeline, OpKind::StateD2H, &Interval::end);
    const auto update = times(copies, timeline, OpKind::Adam, &Interval::start);
    REQUIRE(end.size() == kUnits);
    for (const auto& [unit, start] : update) CHECK(start >= end.at(unit) - kExact);
  }
}

TEST_CASE("copies in one of some steps cost the mean over these what one of them has no time for") {
  const Seconds without = Snapshots(Snapshot::None, Home::Gpu).timeline().step_seconds;
  for (const int every : {2, 3, 5, 8}) {
    for (const Seconds copy : {0.5, 5.9, 9.0, 30.0}) {
      CAPTURE(every, copy);
      Snapshots copies(Snapshot::Copy, Home::Gpu);
      copies.program.snapshot_every = every;
      copies.platform.d2h = {{{1, copy, 0}, {2, copy, 0}}};
      const Timeline timeline = copies.timeline();
      // Copies begin when the first chunk is updated, and end before the last one is again.
      const Seconds more = std::max(0.0, kUnits * copy - without - (kUnits - 2) * kAdam);
      CHECK_THAT(timeline.step_seconds, WithinRel(without + more / every, kExact));
      for (const Interval& interval : timeline.intervals) {
        const Operation& op = copies.program.operations.at(interval.operation);
        if (op.kind != OpKind::StateD2H) continue;
        const Seconds expected = interval.step % every == 0 ? copy : 0;
        CHECK_THAT(interval.end - interval.start, WithinAbs(expected, kExact));
      }
    }
  }
}

TEST_CASE("updates on the host wait until state on the GPU has been copied") {
  constexpr Seconds kWithout = kUnits * (kForward + kBackward) + (kUnits - 1) * kAdam;
  for (const Seconds copy : {0.3, 2.0, 6.9, 7.1, 12.0}) {
    CAPTURE(copy);
    Snapshots copies(Snapshot::Copy, Home::Gpu);
    // The last unit's gradient comes first, and its update writes over a version.
    copies.plan.units.back().chunks.front().optimizer = Home::Host;
    copies.program = lower(test::small_profile(copies.architecture, 1), copies.plan);
    for (Operation& op : copies.program.operations) {
      op.compute_seconds = op.kind == OpKind::Backward ? kBackward : kForward;
      if (op.kind == OpKind::GradD2H || op.kind == OpKind::Reduce) op.bytes = 0;
    }
    copies.platform.d2h = {{{0, 0, 0}, {1, copy, 0}, {2, copy, 0}}};
    const Timeline timeline = copies.timeline();
    const auto end = times(copies, timeline, OpKind::StateD2H, &Interval::end);
    const auto update = times(copies, timeline, OpKind::Adam, &Interval::start);
    REQUIRE(end.size() == kUnits - 1);
    for (const auto& [unit, copied] : end) CHECK(update.at(kUnits - 1) >= copied - kExact);
    CHECK_THAT(timeline.step_seconds, WithinRel(std::max(kWithout, (kUnits - 1) * copy), kExact));
  }
}

TEST_CASE("copies for peers take the time of their bytes on the link") {
  const Architecture architecture = test::small_architecture(4, false);
  Plan plan = test::uniform_plan(architecture, 4, Sharding::Sharded, Home::Host, Home::Host);
  plan.snapshot = Snapshot::Versions;
  plan.snapshot_copies = 2;
  const Program program = lower(test::small_profile(architecture, 1), plan);
  Platform platform = test::cluster(test::plain_platform(), 2);
  platform.network->bytes_per_second = 1e3;
  const Timeline timeline = Engine(platform, 4).simulate(program);
  int copies = 0;
  for (const Interval& interval : timeline.intervals) {
    const Operation& op = program.operations[static_cast<std::size_t>(interval.operation)];
    if (op.kind != OpKind::PeerCopy || interval.step == 0) continue;
    ++copies;
    // Both ranks of a node send through its NICs at once.
    const double rate = platform.network->nics * 1e3;
    const Seconds expected = 2 * static_cast<double>(op.bytes) / rate + platform.network->latency;
    CHECK_THAT(interval.end - interval.start, WithinRel(expected, kExact));
  }
  CHECK(copies > 0);
  CHECK_THROWS_AS(Engine(test::plain_platform(), 4).simulate(program), InputError);
}

}  // namespace athanor
