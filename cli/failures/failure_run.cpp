// SPDX-License-Identifier: Apache-2.0
#include "cli/failures/failure_run.hpp"

#include "sim/base/durations.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace athanor::cli {
namespace {

/// More failures than this leave no time to train, and take long to simulate.
constexpr double kMostOfJob = 1.0 / 60;
/// Failures in all simulated months at which their number is no longer the largest.
constexpr double kManyFailures = 200'000;

/// Most steps between snapshots that are looked at for the best.
constexpr std::int64_t kMostSteps = 100'000;

/// Seconds of a step in which no operation of a lane runs, if each took as long as alone.
Seconds idle_seconds(const Report& report, Lane lane) {
  for (const Utilization& load : report.explanation.utilizations) {
    if (load.name == lane_name(lane)) return (1 - load.share) * report.step_seconds;
  }
  return report.step_seconds;
}

double network_rate(const Platform& platform) {
  return platform.network ? platform.network->nics * platform.network->bytes_per_second : 0;
}

double total(const std::vector<FailureSource>& sources) {
  double per_second = 0;
  for (const FailureSource& source : sources) per_second += source.per_second;
  return per_second;
}

/// Throws InputError for failures in which a simulation has nothing to say.
int months_to_simulate(const std::vector<FailureSource>& sources) {
  const double per_second = total(sources);
  if (per_second > kMostOfJob) {
    throw InputError("--failures",
                     fmt::format("{:.3g} failures an hour in this job", per_second * 3600),
                     "Use rates of at most one failure a minute in all.");
  }
  return static_cast<int>(std::clamp(kManyFailures / (1 + per_second * kMonth), 20.0, 400.0));
}

SnapshotTraffic snapshot_traffic(const Report& report, const Platform& platform, double state_bytes,
                                 const CopyPlacement& placement) {
  // The plan's own step copies and sends what it has itself.
  const double share =
      report.plan.snapshot == Snapshot::Copy ? 0 : gpu_optimizer_share(report.plan);
  const double on_gpu = share * state_bytes / report.plan.world_size;
  SnapshotTraffic traffic{.step = report.step_seconds, .copy = {}, .send = {}};
  traffic.copy = {on_gpu > 0 ? platform.d2h.at(on_gpu) : 0, idle_seconds(report, Lane::D2H)};
  const int copies = placement.num_copies - (report.plan.snapshot_copies - 1);
  if (copies > 1) {
    traffic.send = {
        peer_seconds(state_bytes, placement.num_machines, copies, network_rate(platform)),
        idle_seconds(report, Lane::Collective)};
  }
  return traffic;
}

/// Throws InputError where copies have no way to a peer.
void require_network(const Platform& platform, const CopyPlacement& placement) {
  if (placement.num_copies == 1 || network_rate(platform) > 0) return;
  throw InputError("--snapshot copies",
                   fmt::format("{}, but {} has no network to send copies over",
                               placement.num_copies, platform.name),
                   "Use copies=1, or a platform with a network.");
}

/// Throws InputError where the plan itself copies its state in other steps than are asked for.
void require_same_steps(const SnapshotChoice& choice, const Plan& plan) {
  if (choice.every % plan.snapshot_every == 0) return;
  throw InputError("--snapshot every",
                   fmt::format("{} steps, but the plan copies its state in one of {}", choice.every,
                               plan.snapshot_every),
                   fmt::format("Give every={}, or a multiple of it.", plan.snapshot_every));
}

/// Fills in snapshots in memory.
void add_snapshots(FailureRun& result, const SnapshotChoice& choice, const Report& report,
                   const TuningProblem& problem) {
  TrainingRun& run = result.run;
  run.placement.num_copies = choice.copies;
  run.placement.rule = choice.rule;
  run.jump = choice.jump;
  run.validate("--snapshot");
  require_same_steps(choice, report.plan);
  require_network(problem.platform, run.placement);
  const auto state = static_cast<double>(result.state_bytes);
  const SnapshotTraffic traffic = snapshot_traffic(report, problem.platform, state, run.placement);
  const double part = state / run.placement.num_machines;
  result.traffic = traffic;
  result.every = choice.every;
  result.snapshot_host_bytes = static_cast<Bytes>(2 * choice.copies * part);
  run.snapshot_interval = static_cast<double>(choice.every) * report.step_seconds;
  run.snapshot_blocking = traffic.blocking(choice.every);
  run.snapshot_latency = traffic.spread(choice.every) - run.snapshot_blocking;
  run.memory_retrieval = problem.platform.h2d.at(state / report.plan.world_size);
  if (choice.copies > 1) run.memory_retrieval += part / network_rate(problem.platform);
  // A checkpoint is written from the snapshot, so it stops nothing; the next starts after it.
  run.checkpoint_latency = result.store_write;
}

}  // namespace

FailureRun failure_run(const FailureOptions& options, const Report& report,
                       const TuningProblem& problem) {
  const int gpus = report.plan.world_size;
  const int machines = problem.platform.num_nodes(gpus);
  FailureRun result;
  result.state_bytes = kCheckpointBytesPerParameter * problem.profile.architecture.num_parameters();
  result.store_write =
      store_seconds(static_cast<double>(result.state_bytes), static_cast<double>(options.store));
  result.sources = failure_sources(parse_failure_rates(*options.failures), machines, gpus);
  result.num_months = months_to_simulate(result.sources);
  result.host_room = std::max(
      Bytes{0}, report.limits.host - node_host_bytes(report.peak_bytes, report.ranks_per_node));
  TrainingRun& run = result.run;
  run.placement = {machines, 1, PlacementRule::Mixed};
  run.restart = parse_duration(options.restart, "--restart");
  run.disk_retrieval = result.store_write;
  run.keeps_memory = options.snapshot.has_value();
  Seconds pace = parse_duration(options.checkpoint_every, "--checkpoint-every");
  if (run.keeps_memory) {
    add_snapshots(result, parse_snapshot(*options.snapshot), report, problem);
    pace = std::max(pace, result.store_write);
    const Seconds period = run.snapshot_interval + run.snapshot_blocking;
    run.snapshots_per_checkpoint = std::max<std::int64_t>(1, std::llround(pace / period));
  } else {
    const double steps = std::max(1.0, std::round(pace / report.step_seconds));
    run.snapshot_interval = steps * report.step_seconds;
    run.checkpoint_blocking = result.store_write;
  }
  return result;
}

BestIntervals best_intervals(const FailureRun& run) {
  const double failures = total(run.sources);
  // Without failures nothing is ever too rare.
  if (failures <= 0) return {run.traffic ? kMostSteps : 0, kMostSeconds};
  const Seconds down = run.run.restart + run.run.disk_retrieval;
  if (!run.traffic) return {0, saxena_interval(run.store_write, down, failures)};
  const double recovered = failures * (1 - fatal_share(run.run, run.sources));
  // A checkpoint out of memory stops nothing, so it is best to write as the store allows.
  return {best_snapshot_steps(*run.traffic, recovered, kMostSteps), run.store_write};
}

}  // namespace athanor::cli
