// SPDX-License-Identifier: Apache-2.0
// Implements athanor retune. `athanor train --retune` starts it beside itself.
#include "cli/rates/verb_retune.hpp"

#include "cli/common/progress_line.hpp"
#include "cli/rates/rate_table.hpp"
#include "cli/rates/rated_run.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/base/text_file.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/rates/rated_machine.hpp"
#include "sim/search/search.hpp"
#include "sim/settings/plan_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

struct RetuneOptions {
  std::string run, output;
  double gain = 0.05;
  std::vector<Bytes> within;  ///< memory of a run: GPU, host and NVMe; empty: not known
  int workers = 0;            ///< 0: a part of the cores
  pid_t parent = 0;           ///< 0: outlives whoever started it
  bool json = false, quiet = false;
};

/// Result of the search.
struct SecondTuning {
  Seconds current = 0, best = 0;
  Plan plan;
  std::vector<std::string> changes;  ///< "sharding: replicated -> sharded"
  bool is_better = false;            ///< by more than the gain that was asked for
  [[nodiscard]] double gain() const noexcept { return 1 - best / current; }
};

Bytes smaller(Bytes limit, Bytes other) {
  if (limit == 0 || other == 0) return std::max(limit, other);
  return std::min(limit, other);
}

/// Returns the limits of the plan's search. A plan that does not say them gets no more memory than
/// it takes itself: somebody may have had a reason.
MemoryLimits limits_of(const RatedRun& run, const std::vector<Bytes>& within) {
  MemoryLimits limits;
  if (const auto& search = run.plan.search) {
    limits = {.gpu = search->gpu, .host = search->host, .nvme = search->nvme};
  } else {
    const TierBytes peak = plan_peak_bytes(run.profile, run.plan);
    const int ranks = run.platform.ranks_per_node(run.plan.world_size);
    limits = {.gpu = peak.gpu,
              .host = std::max<Bytes>(1, node_host_bytes(peak, ranks)),
              .nvme = node_nvme_bytes(peak, ranks)};
  }
  if (within.empty()) return limits;
  return {.gpu = smaller(limits.gpu, within[0]),
          .host = smaller(limits.host, within[1]),
          .nvme = std::min(limits.nvme, within[2])};
}

/// Returns the request of the plan's own search. The split of the batch stays: it would change how
/// sums are rounded.
PlanRequest request_of(const RatedRun& run, const std::vector<Bytes>& within) {
  const Plan& plan = run.plan;
  PlanRequest request{.num_gpus = plan.world_size, .global_batch = plan.global_batch()};
  request.limits = limits_of(run, within);
  request.micro_batch = plan.micro_batch;
  request.snapshot = plan.snapshot;
  request.snapshot_every = plan.snapshot_every;
  request.snapshot_copies = plan.snapshot_copies;
  request.snapshot_send = plan.snapshot_send;
  request.adam_state = plan.adam_state;
  request.deterministic = plan.deterministic;
  request.cuda_graphs = plan.cuda_graphs ? CudaGraphs::On : CudaGraphs::Off;
  if (plan.search && plan.search->adam_threads > 0) {
    request.adam_threads = plan.search->adam_threads;
  }
  if (plan.clipping == Clipping::None) return request;
  request.clipping = Clipping::Wait;
  request.max_gradient_norm = plan.max_gradient_norm;
  request.clipped_share = plan.clipped_share;
  return request;
}

SearchOptions search_options(const RatedRun& run, const RetuneOptions& options,
                             ProgressLine& progress) {
  constexpr int kPart = 4;
  SearchOptions search;
  search.workers = options.workers > 0 ? options.workers : std::max(1, usable_cores() / kPart);
  // Another pattern would change how sums are rounded.
  search.mix = mix_of(run.plan, run.profile.architecture);
  if (run.plan.search) {
    search.host_update_slowdown = 1 + run.plan.search->host_slowdown;
    if (run.plan.search->energy_within > 0) search.energy_within = run.plan.search->energy_within;
  }
  search.progress = progress.callback();
  return search;
}

std::vector<std::string> changes_of(const Plan& from, const Plan& to) {
  std::vector<std::string> changes;
  for (const auto& [name, part] : kPlanParts) {
    const std::string before = text_of(part, from), after = text_of(part, to);
    if (before != after) changes.push_back(fmt::format("{}: {} -> {}", name, before, after));
  }
  return changes;
}

/// Searches for the best plan on the machine as the run has found it.
SecondTuning search_again(const RatedRun& run, const RatedMachine& machine,
                          const RetuneOptions& options) {
  const TuningProblem problem =
      tuning_problem(machine.profile, machine.platform, request_of(run, options.within));
  Engine engine(machine.platform, run.plan.world_size);
  SecondTuning tuning;
  tuning.current =
      engine.simulate(lower(machine.profile, run.plan), {.record_intervals = false}).step_seconds;
  ProgressLine progress(progress_on_stderr(options.quiet || options.parent > 0));
  tuning.plan =
      search(problem, engine, default_search_space(problem), search_options(run, options, progress))
          .best;
  tuning.plan.compute_threads = run.plan.compute_threads;
  tuning.plan.search = run.plan.search;
  tuning.best = tuning.plan.prediction->step_seconds;
  tuning.changes = changes_of(run.plan, tuning.plan);
  tuning.is_better = tuning.gain() > options.gain;
  return tuning;
}

/// Writes the plan with what it was made from.
void write_plan(const std::string& folder, Plan plan, const RatedMachine& machine) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    write_file_atomically((std::filesystem::path(folder) / name).string(), text);
  };
  plan.profile_path = "profile.json";
  plan.platform_path = "platform.json";
  write("profile.json", to_json(machine.profile));
  write("platform.json", to_json(machine.platform));
  write("plan.json", to_json(plan));
}

nlohmann::ordered_json json_of(const RatedRun& run, const SecondTuning& tuning) {
  return {{"first_step", run.measured.first_step},
          {"last_step", run.measured.last_step},
          {"current_step_seconds", tuning.current},
          {"best_step_seconds", tuning.best},
          {"gain", tuning.gain()},
          {"is_better", tuning.is_better},
          {"changes", tuning.changes},
          {"moved_rates", moved_rates(run)},
          {"rates", rates_json(run.combined)}};
}

std::string text_of(const RatedRun& run, const SecondTuning& tuning) {
  constexpr double kPercent = 100;
  std::string text;
  for (const std::string& rate : moved_rates(run)) text += rate + "\n";
  text += fmt::format(
      "with the rates of steps {} to {} a step takes {}; by the best plan {} ({:.1f} % less)\n",
      run.measured.first_step, run.measured.last_step, format_seconds(tuning.current),
      format_seconds(tuning.best), kPercent * tuning.gain());
  for (const std::string& change : tuning.changes) text += "  " + change + "\n";
  return text;
}

int retune(const RetuneOptions& options) {
  if (options.parent > 0) end_with(options.parent);
  const RatedRun run = rate_run(options.run);
  const RatedMachine machine =
      rated_machine(run.platform, run.profile, run.program, run.again.factors);
  const SecondTuning tuning = search_again(run, machine, options);
  if (!options.output.empty() && tuning.is_better) {
    write_plan(options.output, tuning.plan, machine);
  }
  fmt::print("{}", options.json ? json_of(run, tuning).dump(2) + "\n" : text_of(run, tuning));
  return kExitDone;
}

}  // namespace

void add_retune(CLI::App& app, Action& action) {
  auto options = std::make_shared<RetuneOptions>();
  CLI::App* verb = app.add_subcommand(
      "retune", "Tune a run's plan again with the rates that the run has measured");
  verb->add_option("run", options->run, "Run folder of athanor train, with its rates.json")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "Write the better plan into this folder, with its profile and platform")
      ->type_name("FOLDER");
  add_share(*verb, "--gain", options->gain,
            "Share of the step by which a plan has to be better (default 5%)");
  verb->add_flag("--json", options->json, "Print one JSON object");
  add_quiet(*verb, options->quiet);
  // For `athanor train`, which nothing may outlive, and whose memory is known.
  verb->add_option("--end-with", options->parent)->check(whole_number(1))->group("");
  verb->add_option("--within", options->within)->expected(3)->group("");
  verb->callback([&action, options] { action = [options] { return retune(*options); }; });
}

}  // namespace athanor::cli
