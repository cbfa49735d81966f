// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/waste.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

constexpr double kMinute = 60, kGigabit = 1e9 / 8;
constexpr double kPrinted = 1e-3;

/// GEMINI's testbed: 100 billion parameters, a store of 20 Gb/s.
constexpr double kState = 100e9 * kCheckpointBytesPerParameter;
constexpr double kStore = 20 * kGigabit;
constexpr int kMachines = 16;

/// Checkpoints to memory in every iteration. The artifact gives 9 minutes for all that a failure
/// wastes, and no parts.
CheckpointTimes gemini() {
  const Seconds iteration = 62;
  const Seconds send = peer_seconds(kState, kMachines, 2, 0.85 * 400 * kGigabit);
  CheckpointTimes times{.interval = iteration, .write = iteration, .retrieve = send};
  times.restart = 9 * kMinute - wasted_per_failure(times);
  return times;
}

/// Checkpoints to the store as fast as it takes them. Every machine first writes its part out of
/// its memory at 0.9375 GB/s, while training stands still.
CheckpointTimes high_frequency() {
  const Seconds write = store_seconds(kState, kStore);
  const Seconds serialize = store_seconds(kState / kMachines, 0.9375e9);
  return {write, serialize, write, write, 6 * kMinute};
}

/// A checkpoint every three hours, whose own stop the artifact leaves out.
CheckpointTimes strawman() {
  const Seconds write = store_seconds(kState, kStore);
  return {180 * kMinute, 0, write, write, 6 * kMinute};
}

/// Argument in [low, high] at which `f` is least, by golden section.
double least(double low, double high, const std::function<double(double)>& f) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  while (high - low > 1e-7 * high) {
    const double left = high - golden * (high - low), right = low + golden * (high - low);
    (f(left) < f(right) ? high : low) = f(left) < f(right) ? right : left;
  }
  return (low + high) / 2;
}

}  // namespace

TEST_CASE("Figure 11: checkpoints to peers take so many times less than to the store") {
  struct Row {
    double gigabits;
    std::vector<double> by_machines;  ///< 4, 8, 12, 16
  };
  for (const Row& row :
       {Row{100, {17, 34, 51, 68}}, Row{200, {34, 68, 102, 136}}, Row{400, {68, 136, 204, 272}}}) {
    for (int i = 0; i < 4; ++i) {
      const int machines = 4 * (i + 1);
      const Seconds peers = peer_seconds(kState, machines, 2, 0.85 * row.gigabits * kGigabit);
      CHECK_THAT(store_seconds(kState, kStore) / peers, WithinAbs(row.by_machines[i], kPrinted));
    }
  }
}

TEST_CASE("Figure 14a: effective ratio by failures a day") {
  CHECK_THAT(wasted_per_failure(high_frequency()), WithinAbs(26 * kMinute, 1e-9));
  CHECK_THAT(wasted_per_failure(strawman()), WithinAbs(112 * kMinute, 1e-9));
  struct Row {
    double a_day, gemini, high_frequency, strawman;
  };
  for (const Row& row :
       {Row{1, .994, .839, .922}, Row{4, .975, .785, .689}, Row{8, .950, .713, .378}}) {
    const double rate = row.a_day / kDay;
    CHECK_THAT(effective_ratio(gemini(), rate), WithinAbs(row.gemini, kPrinted));
    CHECK_THAT(effective_ratio(high_frequency(), rate), WithinAbs(row.high_frequency, kPrinted));
    CHECK_THAT(effective_ratio(strawman(), rate), WithinAbs(row.strawman, kPrinted));
  }
}

TEST_CASE("Figure 14b: effective ratio by machines of which 1.5 % fail a day") {
  struct Row {
    double machines, gemini, high_frequency, strawman;
  };
  for (const Row& row :
       {Row{200, .981, .803, .767}, Row{600, .944, .695, .300}, Row{1000, .906, .586, 0}}) {
    const double rate = .015 * row.machines / kDay;
    CHECK_THAT(effective_ratio(gemini(), rate), WithinAbs(row.gemini, kPrinted));
    CHECK_THAT(effective_ratio(high_frequency(), rate), WithinAbs(row.high_frequency, kPrinted));
    CHECK_THAT(effective_ratio(strawman(), rate), WithinAbs(row.strawman, kPrinted));
  }
}

TEST_CASE("GEMINI's headline factors follow from its formulas") {
  const Seconds iteration = 62, write = 480;
  const CheckpointTimes memory{.interval = iteration, .write = iteration};
  const CheckpointTimes store{.interval = write, .write = write, .retrieve = write};
  CHECK_THAT(wasted_per_failure(store) / wasted_per_failure(memory), WithinAbs(12.9, 0.05));
  CHECK_THAT(write / iteration, WithinAbs(7.7, 0.05));
  CHECK_THAT(180 * kMinute / iteration, WithinAbs(174, 0.5));
  // 94.6 billion parameters at 340 Gb/s of each machine; MT-NLG 530B at 20 Gb/s.
  CHECK_THAT(peer_seconds(94.6e9 * 12, 16, 2, 340 * kGigabit), WithinAbs(1.67, 5e-3));
  CHECK_THAT(store_seconds(530e9 * 12, kStore) / kMinute, WithinAbs(42.4, 0.05));
}

TEST_CASE("Saxena's interval wastes least where each failure costs half an interval") {
  for (const double checkpoint : {0.5, 30.0, 400.0}) {
    const Seconds restart = 600, between = 7200;
    const auto not_trained = [&](Seconds work) {
      const Seconds period = work + checkpoint;
      return -(work / period) * between / (between + restart + period / 2);
    };
    const Seconds best = saxena_interval(checkpoint, restart, 1 / between);
    CHECK_THAT(least(1, between, not_trained), WithinRel(best, 1e-3));
  }
  // With nothing to restart, short checkpoints leave Young's formula.
  CHECK_THAT(saxena_interval(1e-3, 0, 1e-4), WithinRel(young_interval(1e-3, 1e-4), 1e-6));
}

TEST_CASE("Daly's interval wastes least where failures are a Poisson process") {
  for (const double checkpoint : {1.0, 60.0, 600.0}) {
    const double rate = 1.0 / 7200;
    const auto stretched = [&](Seconds work) {
      return expected_segment_seconds(work, checkpoint, 300, rate) / work;
    };
    const Seconds best = least(1, 1e5, stretched);
    CHECK_THAT(daly_interval(checkpoint, rate), WithinRel(best, 2e-3));
    CHECK(stretched(best) <= stretched(young_interval(checkpoint, rate)));
  }
  CHECK(daly_interval(20000, 1.0 / 7200) == 7200);
}

TEST_CASE("a rare failure costs what the sum of its parts says") {
  const double rate = 1e-9;
  const CheckpointTimes times{.interval = 1000, .blocking = 0, .restart = 300};
  const double stretched = expected_segment_seconds(1000, 0, 300, rate) / 1000;
  CHECK_THAT((stretched - 1) / rate, WithinRel(wasted_per_failure(times), 1e-4));
}

}  // namespace athanor::test
