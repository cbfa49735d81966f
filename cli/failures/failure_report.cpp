// SPDX-License-Identifier: Apache-2.0
// Reports the share of a month that trains under failures, as text and as JSON.
#include "cli/failures/failure_run.hpp"
#include "sim/base/durations.hpp"
#include "sim/base/errors.hpp"
#include "sim/failures/waste.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace athanor::cli {
namespace {

constexpr double kMonthDays = kMonth / kDay;
constexpr const char* kNote =
    "simulated; the executor copies snapshots to peers for ranks on the CPU alone";

using Json = nlohmann::ordered_json;

/// Causes of waste, longest names as they are printed, and keys of JSON.
struct Cause {
  const char* key;
  Estimate FailureForecast::* share;
};
constexpr std::array<Cause, 5> kCauses{{{"snapshots", &FailureForecast::snapshots},
                                        {"checkpoints", &FailureForecast::checkpoints},
                                        {"lost", &FailureForecast::lost},
                                        {"restarts", &FailureForecast::restarts},
                                        {"retrievals", &FailureForecast::retrievals}}};

/// Share of failures that need the disk although they find all copies whole.
double fatal_alone(const FailureRun& run) {
  return run.traffic ? fatal_share(run.run, run.sources) : 1;
}

Json estimate_json(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"standard_error", estimate.standard_error}};
}

std::string percent(const Estimate& share) {
  return fmt::format("{:.3g} % +- {:.1g}", 100 * share.mean, 100 * share.standard_error);
}

/// Writes a time of minutes or hours so that it can be read: "8.00 min", "3.25 h".
std::string long_time(Seconds seconds) {
  if (seconds < 60) return format_seconds(seconds);
  if (seconds < 3600) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string steps_text(std::int64_t steps) {
  return steps == 1 ? "every step" : fmt::format("every {} steps", steps);
}

std::string snapshot_text(const FailureRun& run) {
  if (!run.traffic) return "none in memory; checkpoints stop training";
  const CopyPlacement& placement = run.run.placement;
  const Seconds stop = run.run.snapshot_blocking;
  return fmt::format(
      "{}, {} copies on {} machines ({}); {}; {} of the {} of host "
      "memory that are left on a machine",
      steps_text(run.every), placement.num_copies, placement.num_machines,
      name_of(kPlacementRuleNames, placement.rule),
      stop > 0 ? fmt::format("does not fit in idle time, stops {} each", format_seconds(stop))
               : std::string("fits in idle time"),
      format_bytes(run.snapshot_host_bytes), format_bytes(run.host_room));
}

std::string best_text(const FailureRun& run) {
  const BestIntervals best = best_intervals(run);
  const std::string checkpoint = long_time(best.checkpoint);
  if (!run.traffic) return fmt::format("a checkpoint every {} of training (Saxena)", checkpoint);
  return fmt::format("a snapshot {}; a checkpoint as the store takes it, every {}",
                     steps_text(best.snapshot_steps), checkpoint);
}

Json snapshot_json(const FailureRun& run) {
  if (!run.traffic) return nullptr;
  const CopyPlacement& placement = run.run.placement;
  return {{"every", run.every},
          {"copies", placement.num_copies},
          {"placement", name_of(kPlacementRuleNames, placement.rule)},
          {"jump", run.run.jump},
          {"copy_seconds", run.traffic->copy.traffic},
          {"send_seconds", run.traffic->send.traffic},
          {"blocking_seconds", run.run.snapshot_blocking},
          {"host_bytes", run.snapshot_host_bytes},
          {"fits_host", run.snapshot_host_bytes <= run.host_room}};
}

Json forecast_json(const FailureRun& run, const FailureForecast& forecast, std::uint64_t seed) {
  const BestIntervals best = best_intervals(run);
  Json json;
  json["note"] = kNote;
  json["horizon_seconds"] = kMonth;
  json["runs"] = run.num_months;
  json["seed"] = seed;
  json["machines"] = run.run.placement.num_machines;
  json["state_bytes"] = run.state_bytes;
  json["num_failures"] = estimate_json(forecast.num_failures);
  json["effective_share"] = estimate_json(forecast.training);
  json["waste"] = Json::object();
  for (const Cause& cause : kCauses)
    json["waste"][cause.key] = estimate_json(forecast.*cause.share);
  json["from_disk"] = estimate_json(forecast.from_disk);
  json["from_disk"]["at_once"] = fatal_alone(run);
  json["snapshot"] = snapshot_json(run);
  json["checkpoint"] = {{"every_seconds", static_cast<double>(run.run.snapshots_per_checkpoint) *
                                              run.run.snapshot_interval},
                        {"blocking_seconds", run.run.checkpoint_blocking},
                        {"write_seconds", run.store_write}};
  json["best"] = {{"snapshot_every", run.traffic ? Json(best.snapshot_steps) : Json(nullptr)},
                  {"checkpoint_seconds", best.checkpoint}};
  return json;
}

std::string forecast_text(const FailureRun& run, const FailureForecast& forecast) {
  std::string text;
  const auto line = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("{:<12} {}\n", key, value);
  };
  line("failures",
       fmt::format("{:.3g} in a month of {} days on {} machines ({})", forecast.num_failures.mean,
                   kMonthDays, run.run.placement.num_machines, kNote));
  line("snapshots", snapshot_text(run));
  line("effective", fmt::format("{:.2f} of {} days train ({})", kMonthDays * forecast.training.mean,
                                kMonthDays, percent(forecast.training)));
  std::string waste;
  for (const Cause& cause : kCauses) {
    waste += fmt::format("{}{} {}", waste.empty() ? "" : ", ", cause.key,
                         percent(forecast.*cause.share));
  }
  line("waste", waste);
  line("from disk", fmt::format("{} of failures; {:.3g} % if each finds all copies whole (exact)",
                                percent(forecast.from_disk), 100 * fatal_alone(run)));
  line("best", best_text(run));
  return text;
}

}  // namespace

void add_failures(CLI::App& verb, FailureOptions& options) {
  CLI::Option* failures =
      verb.add_option("--failures", options.failures,
                      "Say what failures leave of a month: rates such as 1.5%/machine/day, "
                      "0.1/4machines/month (neighbours that fail together), 2/job/week (processes "
                      "alone). Simulated: the executor copies snapshots to peers for ranks on the "
                      "CPU alone")
          ->type_name("RATES");
  verb.add_option("--snapshot", options.snapshot,
                  "Snapshots in memory: every=1,copies=2,placement=mixed,jump=1 (default: none)")
      ->needs(failures)
      ->type_name("KEYS");
  verb.add_option("--checkpoint-every", options.checkpoint_every,
                  "Training between checkpoints on disk (default: 10m)")
      ->needs(failures)
      ->type_name("TIME");
  verb.add_option("--restart", options.restart,
                  "From a failure until the state is read: detection, a new machine, start of "
                  "processes (default: 6m)")
      ->needs(failures)
      ->type_name("TIME");
  add_size(verb, "--store-rate", options.store,
           "Bytes a second of the store that all machines share (default: 2.5GB)")
      ->needs(failures);
  verb.add_option("--failure-seed", options.seed, "Seed of the drawn failures (default: 1)")
      ->check(whole_number(0))
      ->needs(failures)
      ->type_name("N");
}

void check_failures(const FailureOptions& options) {
  static_cast<void>(parse_failure_rates(*options.failures));
  if (options.snapshot) static_cast<void>(parse_snapshot(*options.snapshot));
  static_cast<void>(parse_duration(options.checkpoint_every, "--checkpoint-every"));
  static_cast<void>(parse_duration(options.restart, "--restart"));
}

FailureAnswer answer_failures(const FailureOptions& options, const Report& report,
                              const TuningProblem& problem) {
  const FailureRun run = failure_run(options, report, problem);
  const FailureForecast forecast =
      forecast_failures(run.run, run.sources, kMonth, run.num_months, options.seed);
  return {forecast_json(run, forecast, options.seed), forecast_text(run, forecast)};
}

}  // namespace athanor::cli
