// SPDX-License-Identifier: Apache-2.0
// Implements athanor tune, which finds the fastest plan that fits.
#include "cli/common/plan_paths.hpp"
#include "cli/common/progress_line.hpp"
#include "cli/common/shipped_files.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/scaled_profile.hpp"
#include "cli/sim/tune_platforms.hpp"
#include "cli/sim/tune_report.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/snapshot_way.hpp"
#include "sim/patterns/patterns.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace athanor::cli {
namespace {

struct TuneOptions {
  Inputs inputs;
  std::vector<std::string> platforms, prices;
  std::vector<int> gpus;
  std::int64_t batch_per_gpu = 0;  ///< 0 = not given
  std::string plan_path, all_path;
  int top = 0;
  std::vector<std::string> patterns;  ///< by name; empty = all
  bool json = false, sensitivity = false, pareto = false;
  Bytes memory_resolution = 0;  ///< resolution for GPU and host; 0 = chosen for each
  double time_resolution = FrontResolution{}.time;
  double energy_within = 0;  ///< 0 = plans are ranked by time alone
  double host_slowdown = 0;
};

std::size_t num_shown(const SearchResult& result, const TuneOptions& options) {
  return std::min(result.ranked.size(), static_cast<std::size_t>(options.top));
}

void write_all(const SearchResult& result, const std::string& path) {
  std::string lines;
  for (std::size_t i = 0; i < result.ranked.size(); ++i) {
    lines += ranked_json(result, i).dump() + "\n";
  }
  write_file_atomically(path, lines);
}

/// Adds the Pareto front to `result`. It comes from a search of its own: plans that fill memory are
/// no answers to less memory.
void add_front(const TuneOptions& options, const TuningProblem& problem, Engine& engine,
               SearchOptions search_options, SearchResult& result) {
  search_options.front = FrontResolution{options.memory_resolution, options.memory_resolution,
                                         options.time_resolution};
  SearchResult other =
      search(problem, engine, default_search_space(problem, /*for_front=*/true), search_options);
  result.front = std::move(other.front);
  result.front_resolution = other.front_resolution;
  const Evaluated& best = result.ranked.front();
  if (best.step_seconds < result.front.front().step_seconds) {
    result.front.insert(result.front.begin(), best);
  }
}

SearchResult run_search(const TuneOptions& options, const TuningProblem& problem, Engine& engine) {
  constexpr int kKeep = 10;
  ProgressLine progress(progress_on_stderr(options.inputs.quiet));
  SearchOptions search_options;
  search_options.keep = std::max(kKeep, options.top);
  if (options.energy_within > 0) search_options.energy_within = options.energy_within;
  search_options.host_update_slowdown = 1 + options.host_slowdown;
  if (!options.patterns.empty()) {
    search_options.patterns.clear();
    for (const std::string& name : options.patterns) {
      search_options.patterns.push_back(find_pattern(name));
    }
  }
  search_options.progress = progress.callback();
  SearchResult result = search(problem, engine, default_search_space(problem), search_options);
  if (options.pareto) add_front(options, problem, engine, std::move(search_options), result);
  return result;
}

/// Returns what a run that tunes the plan again has to ask for.
PlanSearch search_of(const TuneOptions& options) {
  const Inputs& inputs = options.inputs;
  return {.gpu = inputs.limits.gpu,
          .host = inputs.limits.host,
          .nvme = inputs.limits.nvme,
          .adam_threads = inputs.adam_threads,
          .host_slowdown = options.host_slowdown,
          .energy_within = options.energy_within};
}

int tune_one(const TuneOptions& options) {
  const Inputs& inputs = options.inputs;
  require_option(inputs.num_gpus > 0, "--gpus", "Say how many GPUs to use.");
  const std::vector<std::string> read{inputs.profile_path, inputs.platform_path,
                                      inputs.profile_platform_path};
  require_writable("--output", options.plan_path);
  require_writable("--all", options.all_path);
  require_no_input(options.plan_path, "--output", read);
  require_no_input(options.all_path, "--all", read);
  require_no_input(options.all_path, "--all", {options.plan_path});
  const LoadedProblem loaded(options.inputs);
  const TuningProblem& problem = loaded.problem();
  Engine engine(problem.platform, problem.request.num_gpus);
  const SearchResult result = run_search(options, problem, engine);

  Report report = make_report(result.best, loaded.scaled(), problem, engine,
                              {.sensitivity = options.sensitivity});
  if (!options.plan_path.empty()) {
    report.plan.profile_path = stored_path(options.inputs.profile_path, options.plan_path);
    report.plan.platform_path = stored_path(options.inputs.platform_path, options.plan_path);
    report.plan.search = search_of(options);
    write_file_atomically(options.plan_path, to_json(report.plan));
  }
  if (!options.all_path.empty()) write_all(result, options.all_path);
  const std::size_t rows = num_shown(result, options);
  if (options.json) {
    nlohmann::ordered_json json = tune_json(report, result, rows);
    if (options.host_slowdown > 0)
      json["host_slowdown"] = host_slowdown_json(result, options.host_slowdown);
    print_json(json);
    return kExitDone;
  }
  fmt::print("{}", report_text(report));
  if (options.host_slowdown > 0)
    fmt::print("{}", host_slowdown_text(result, options.host_slowdown));
  fmt::print("{}{}", next_plan_text(report, result), counts_text(result));
  if (rows > 0) fmt::print("{}", ranking_text(result, problem, rows));
  if (options.pareto) fmt::print("{}", front_text(result, problem));
  return kExitDone;
}

/// Tunes one platform, or makes a table for several platforms or numbers of GPUs, or for prices.
/// The table refuses options about one plan.
int tune(const CLI::App& verb, TuneOptions& options) {
  require_option(options.inputs.global_batch > 0 || options.batch_per_gpu > 0, "--global-batch",
                 "Say how many sequences a step has.");
  std::ranges::sort(options.gpus);
  const auto repeats = std::ranges::unique(options.gpus);
  options.gpus.erase(repeats.begin(), repeats.end());
  if (options.platforms.size() == 1 && options.prices.empty() && options.gpus.size() <= 1) {
    options.inputs.platform_path = options.platforms.front();
    if (!options.gpus.empty()) options.inputs.num_gpus = options.gpus.front();
    if (options.batch_per_gpu > 0) {
      options.inputs.global_batch = options.batch_per_gpu * options.inputs.num_gpus;
    }
    return tune_one(options);
  }
  refuse_given(verb,
               {"--output", "--all", "--top", "--sensitivity", "--pareto", "--pattern",
                "--energy-within", "--host-slowdown"},
               "applies to a single platform and number of GPUs",
               "Leave it out, and tune the one that you choose alone.");
  return tune_platforms({options.inputs, options.gpus, options.batch_per_gpu, options.platforms,
                         options.prices, options.json});
}

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  for (const UnitPattern* const pattern : all_patterns()) names.emplace_back(pattern->name());
  return names;
}

/// Adds the options that say which kinds of plans are tried.
void add_kinds(CLI::App& verb, const std::shared_ptr<TuneOptions>& options) {
  verb.add_option_function<std::string>(
          "--snapshot",
          [options](const std::string& text) {
            const SnapshotWay way = parse_snapshot_way(text, /*takes_every=*/true);
            take_snapshot_way(way, "--snapshot", options->inputs);
          },
          "Find plans whose training survives the death of its processes: redo keeps state and "
          "gradients in host memory, and updates when all gradients are there; versions keeps two "
          "versions of the state there, and updates as gradients arrive; copy does so with state "
          "on the host, and copies what is on the GPU there while the next step runs; every=1 "
          "takes the fastest of them that fits; copy,every=N copies in one of N steps, with all "
          "state on the GPU, and a kill loses as many; with copies=2, another node keeps each "
          "version "
          "too, sent as send= says: direct, or by one of the schemes blocking, naive, chunked and "
          "pipelined (default: none)")
      ->type_name("WAY[,every=N][,copies=2[,send=SCHEME]]");
  verb.add_option("--pattern", options->patterns,
                  "Try plans in which weights travel alone, or tokens of experts, or in which "
                  "tensors are split; of several, like tokens,tensors, mixes too (default: all for "
                  "which the profile has costs: --expert-ranks, --tensor-ranks)")
      ->delimiter(',')
      ->check(CLI::IsMember(pattern_names()))
      ->type_name("PATTERN,..");
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* verb = app.add_subcommand("tune", "Find the fastest plan that fits");
  verb->add_option("--platform", options->platforms,
                   "Platforms: one machine, or several for a table (--gpus: default all of each)")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Platforms));
  add_inputs(*verb, options->inputs);
  verb->remove_option(verb->get_option("--gpus"));
  verb->add_option("--gpus", options->gpus,
                   "GPUs to use, one rank each: some of a node, or all of several. Several numbers "
                   "for a table of their speed-up: 1,2,4,8")
      ->delimiter(',')
      ->check(whole_number(1))
      ->type_name("N,..");
  add_count(*verb, "--batch-per-gpu", options->batch_per_gpu,
            "Sequences per step of each GPU, instead of --global-batch")
      ->excludes(verb->get_option("--global-batch"));
  verb->add_option("--price", options->prices,
                   "Price of a platform per hour, by the name of its file: h200x8=25.5")
      ->type_name("NAME=PRICE");
  for (const char* required : {"--profile", "--platform"}) {
    verb->get_option(required)->required();
  }
  verb->add_option("-o,--output", options->plan_path,
                   "Write the plan here; it names profile and platform relative to its folder")
      ->type_name("FILE");
  add_count(*verb, "--top", options->top, "Rank this many plans, with the reason each lost");
  add_kinds(*verb, options);
  verb->add_option("--all", options->all_path,
                   "Write every plan tried, one JSON object per line; \"plans\" counts those that "
                   "differ in updates on the host and were pruned together")
      ->type_name("FILE");
  verb->add_flag("--sensitivity", options->sensitivity,
                 "Say what each part of the machine would be worth if it were twice as fast");
  CLI::Option* pareto = verb->add_flag(
      "--pareto", options->pareto,
      "List the fastest plans for less and less memory of GPU and host: the Pareto front");
  add_size(*verb, "--memory-resolution", options->memory_resolution,
           "Count the front's memory in whole multiples of this (default: some 16 of what fits)")
      ->needs(pareto);
  add_share(*verb, "--time-resolution", options->time_resolution,
            "Leave out plans that are faster by less than this (default 1%; 0: the exact front)")
      ->needs(pareto);
  verb->add_option("--energy-within", options->energy_within,
                   "Take the plan with the least energy of those that are at most so many times as "
                   "slow as the fastest")
      ->type_name("FACTOR")
      ->check(CLI::Range(1.0, 1000.0));
  add_hidden_alias(
      *verb, "--host-margin",
      add_share(*verb, "--host-slowdown", options->host_slowdown,
                "Find the plan that is best if updates on the host take this share longer than "
                "measured, as on hosts that others use. Rank by such times"));
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->callback(
      [&action, verb, options] { action = [verb, options] { return tune(*verb, *options); }; });
}

}  // namespace athanor::cli
