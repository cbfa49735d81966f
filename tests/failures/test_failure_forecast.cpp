// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/failures/failure_forecast.hpp"
#include "sim/failures/waste.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Matchers::WithinAbs;

/// Checks that a closed form lies within three standard errors.
void check_within_error(const Estimate& estimate, double expected) {
  CAPTURE(estimate.mean, estimate.standard_error, expected);
  CHECK(estimate.standard_error > 0);
  CHECK(std::abs(estimate.mean - expected) <= 3 * estimate.standard_error);
}

Seconds sum(const TimeUse& use) {
  return use.training + use.snapshots + use.checkpoints + use.lost + use.restarts + use.retrievals;
}

/// Four machines in pairs, a snapshot every 10 s, every sixth on disk as well.
TrainingRun four_machines() {
  return {.placement = {4, 2, PlacementRule::Groups},
          .snapshot_interval = 10,
          .snapshot_blocking = 1,
          .snapshot_latency = 2,
          .snapshots_per_checkpoint = 6,
          .checkpoint_blocking = 5,
          .checkpoint_latency = 4,
          .restart = 30,
          .memory_retrieval = 3,
          .disk_retrieval = 20};
}

}  // namespace

TEST_CASE("a failure goes back to the newest whole snapshot") {
  // Snapshots are over at 11, 22, 33, .. 55 and 71 s (with the checkpoint), and whole 2 s later.
  const TrainingRun run = four_machines();
  const TimeUse use = replay_failures(run, {{34, {1}}}, 100);
  CHECK_THAT(use.lost, WithinAbs(34 - 22, 1e-9));
  CHECK_THAT(use.restarts, WithinAbs(30, 1e-9));
  CHECK_THAT(use.retrievals, WithinAbs(3, 1e-9));
  CHECK_THAT(use.training, WithinAbs(20 + 30, 1e-9));  // 33 s to go: three snapshots more
  CHECK_THAT(sum(use), WithinAbs(100, 1e-9));
  CHECK(use.num_from_disk == 0);
  CHECK_THAT(replay_failures(run, {{35.5, {}}}, 100).lost, WithinAbs(35.5 - 33, 1e-9));
}

TEST_CASE("a pair that fails takes the run back to the disk, and one of each pair does not") {
  const TrainingRun run = four_machines();
  const TimeUse one_of_each = replay_failures(run, {{90, {1, 2}}}, 200);
  CHECK(one_of_each.num_from_disk == 0);
  CHECK_THAT(one_of_each.lost, WithinAbs(90 - 82, 1e-9));
  const TimeUse pair = replay_failures(run, {{90, {2, 3}}}, 200);
  CHECK(pair.num_from_disk == 1);
  CHECK_THAT(pair.lost, WithinAbs(90 - 71, 1e-9));
  CHECK_THAT(pair.retrievals, WithinAbs(20, 1e-9));
  // At 74 s the checkpoint of 71 s is not on disk yet.
  CHECK_THAT(replay_failures(run, {{74, {2, 3}}}, 200).lost, WithinAbs(74, 1e-9));
}

TEST_CASE("a partner that fails before the next snapshot is whole loses the pair") {
  const TrainingRun run = four_machines();
  // Training goes on at 123 s from the snapshot of 82 s; the next is whole at 136 s.
  CHECK(replay_failures(run, {{90, {2}}, {110, {3}}}, 400).num_from_disk == 1);
  CHECK(replay_failures(run, {{90, {2}}, {135.5, {3}}}, 400).num_from_disk == 1);
  CHECK(replay_failures(run, {{90, {2}}, {136.5, {3}}}, 400).num_from_disk == 0);
  CHECK(replay_failures(run, {{90, {2}}, {110, {0}}}, 400).num_from_disk == 0);
  const TimeUse twice = replay_failures(run, {{90, {2}}, {110, {3}}}, 400);
  CHECK_THAT(twice.lost, WithinAbs(90 - 71, 1e-9));
  CHECK_THAT(twice.restarts, WithinAbs(20 + 30, 1e-9));
  CHECK_THAT(sum(twice), WithinAbs(400, 1e-9));
}

TEST_CASE("time is divided without rest, whatever fails") {
  TrainingRun run = four_machines();
  run.placement = {10, 3, PlacementRule::Mixed};
  const std::vector<FailureSource> sources{{1e-3, 0}, {2e-3, 1}, {5e-4, 5, true}, {5e-4, 4}};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const TimeUse use = replay_failures(run, draw_failures(sources, 10, 1e5, seed), 1e5);
    CHECK_THAT(sum(use), WithinAbs(1e5, 1e-6));
    CHECK(use.training >= 0);
    CHECK(use.lost >= 0);
    CHECK(use.num_from_disk > 0);
    CHECK(use.num_from_disk < use.num_failures);
  }
}

TEST_CASE("the simulated training time is Daly's closed form, in memory and on disk") {
  const double rate = 1.0 / 5000;
  const bool on_disk = GENERATE(false, true);
  TrainingRun run{.placement = {1, 1, PlacementRule::Groups}, .snapshot_interval = 1000};
  run.restart = 250;
  run.memory_retrieval = run.disk_retrieval = 150;
  (on_disk ? run.checkpoint_blocking : run.snapshot_blocking) = 100;
  run.snapshots_per_checkpoint = on_disk ? 1 : 1'000'000'000;
  const std::vector<FailureSource> sources{{rate, on_disk ? 1 : 0}};
  const FailureForecast forecast = forecast_failures(run, sources, 4e6, 60, 7);
  const Seconds segment = expected_segment_seconds(1000, 100, 400, rate);
  check_within_error(forecast.training, 1000 / segment);
  check_within_error(forecast.num_failures, 4e6 * rate);
  CHECK(forecast.from_disk.mean == (on_disk ? 1 : 0));
}

TEST_CASE("rare failures waste what GEMINI's formula says") {
  TrainingRun run{.placement = {16, 2, PlacementRule::Mixed}, .snapshot_interval = 62};
  run.snapshot_latency = 62;
  run.snapshots_per_checkpoint = 1000;
  run.restart = 400;
  run.memory_retrieval = 2;
  const double rate = 0.3 / kDay;
  const FailureForecast forecast = forecast_failures(run, {{rate, 0}}, 30 * kDay, 4000, 3);
  const CheckpointTimes times{62, 0, 62, 2, 400};
  check_within_error(forecast.training, effective_ratio(times, rate));
}

TEST_CASE("machines that fail at once need the disk as often as the exact probability says") {
  const auto rule = GENERATE(PlacementRule::Mixed, PlacementRule::Ring);
  const int machines = GENERATE(16, 17);
  const int at_once = GENERATE(2, 3, 4);
  CAPTURE(rule, machines, at_once);
  TrainingRun run{.placement = {machines, 2, rule}, .snapshot_interval = 1};
  const std::vector<FailureSource> sources{{1e-5, at_once}};
  const double expected = 1 - survival_probability(run.placement, at_once);
  CHECK_THAT(fatal_share(run, sources), WithinAbs(expected, 1e-12));
  check_within_error(forecast_failures(run, sources, 2e7, 40, 11).from_disk, expected);
}

TEST_CASE("a jump keeps copies out of the domain of their owner") {
  TrainingRun run{.placement = {16, 2, PlacementRule::Mixed}, .snapshot_interval = 1};
  const std::vector<FailureSource> racks{{1e-4, 4, true}};
  CHECK(fatal_share(run, racks) == 1);
  run.jump = 4;
  CHECK(fatal_share(run, racks) == 0);
  CHECK(forecast_failures(run, racks, 1e6, 10, 1).from_disk.mean == 0);
  run.jump = 3;
  CHECK_THROWS_AS(run.validate("--snapshot"), InputError);
}

TEST_CASE("the best interval of a simulated sweep is Saxena's and Daly's") {
  const double rate = 1.0 / 20000;
  const Seconds checkpoint = 60, restart = 300, horizon = 2e7;
  const double ratio = std::sqrt(2.0);
  const Seconds saxena = saxena_interval(checkpoint, restart, rate);
  const Seconds daly = daly_interval(checkpoint, rate);
  double best_share = 0, best = 0;
  for (int step = -4; step <= 4; ++step) {
    TrainingRun run{.placement = {1, 1, PlacementRule::Groups}};
    run.snapshot_interval = 1500 * std::pow(ratio, step);
    run.checkpoint_blocking = checkpoint;
    run.restart = restart;
    // Every interval meets equal failures: what differs is the interval alone.
    const FailureForecast forecast = forecast_failures(run, {{rate, 1}}, horizon, 40, 5);
    if (forecast.training.mean <= best_share) continue;
    best_share = forecast.training.mean;
    best = run.snapshot_interval;
  }
  for (const Seconds closed : {saxena, daly}) {
    CAPTURE(best, closed);
    CHECK(best / ratio <= closed);
    CHECK(closed <= best * ratio);
  }
}

TEST_CASE("equal seeds give equal failures, and others give others") {
  const std::vector<FailureSource> sources{{1e-3, 2}};
  const auto first = draw_failures(sources, 8, 1e5, 1), again = draw_failures(sources, 8, 1e5, 1);
  REQUIRE(first.size() == again.size());
  CHECK(first.front().at == again.front().at);
  CHECK(first.back().machines == again.back().machines);
  CHECK(first.front().at != draw_failures(sources, 8, 1e5, 2).front().at);
}

}  // namespace athanor::test
