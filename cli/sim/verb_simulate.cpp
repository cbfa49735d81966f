// SPDX-License-Identifier: Apache-2.0
// Implements athanor simulate, which predicts one plan's step time and memory.
#include "cli/common/plan_paths.hpp"
#include "cli/common/progress_line.hpp"
#include "cli/common/shipped_files.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/scaled_profile.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/snapshot_way.hpp"
#include "sim/policy/policies.hpp"
#include "sim/search/infeasibility_advice.hpp"
#include "sim/search/search.hpp"
#include "sim/settings/settings_kind.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

/// Names the option for how the plan takes snapshots: --snapshot is about failures here.
constexpr const char* kSnapshotsBy = "--snapshots-by";

struct SimulateOptions {
  Inputs inputs;
  SettingsFiles settings;
  FailureOptions failures;
  std::string plan_path, policy, trace_path, output_path;
  std::string snapshot_way;  ///< value of --snapshots-by; empty: the plan's, or none
  bool json = false, sensitivity = false;
};

Plan plan_of(const std::string& policy, const TuningProblem& problem, Engine& engine, bool quiet) {
  if (policy != "auto") {
    return make_policy_plan(policy, problem.profile, problem.platform, problem.request);
  }
  ProgressLine progress(progress_on_stderr(quiet));
  return search(problem, engine, default_search_space(problem),
                {.keep = 1, .progress = progress.callback()})
      .best;
}

void require_inputs(const Inputs& inputs) {
  require_profile_and_platform(inputs);
  require_option(inputs.num_gpus > 0, "--gpus", "Say how many GPUs to use.");
  require_option(inputs.global_batch > 0, "--global-batch", "Say how many sequences make a step.");
}

/// Reads a plan. Throws InputError that names the option for settings of another system.
Plan read_own_plan(const std::string& path) {
  const std::string text = read_text_file(path, kMaxDocument);
  if (const auto kind = settings_kind(text)) {
    throw InputError(path, fmt::format("holds settings of {}, no plan", kind->system),
                     fmt::format("Give it as {} in place of --plan.", kind->option));
  }
  return parse_plan(text, path);
}

/// Throws InputError where an output would be written over an input.
void require_other_files(const SimulateOptions& options) {
  const std::vector<std::string> read{options.plan_path,
                                      options.inputs.profile_path,
                                      options.inputs.platform_path,
                                      options.inputs.profile_platform_path,
                                      options.settings.deepspeed,
                                      options.settings.accelerate,
                                      options.settings.torchtitan};
  require_no_input(options.trace_path, "--trace", read);
  require_no_input(options.output_path, "--output", read);
  require_no_input(options.trace_path, "--trace", {options.output_path});
}

/// Takes the way of snapshots that was asked for. The fastest is something to search for, which
/// policies other than auto do not.
void take_snapshots(SimulateOptions& options, Plan& plan) {
  if (options.snapshot_way.empty()) return;
  const bool searches = options.plan_path.empty() && options.policy == "auto";
  const SnapshotWay way = parse_snapshot_way(options.snapshot_way, searches, kSnapshotsBy);
  if (options.plan_path.empty()) return take_snapshot_way(way, kSnapshotsBy, options.inputs);
  plan.snapshot = way.snapshot();
  plan.snapshot_every = way.every;
  plan.snapshot_copies = way.copies;
  plan.snapshot_send = way.send;
}

/// Writes the plan with its prediction, as tune does.
void write_plan(const SimulateOptions& options, const Report& report) {
  if (options.output_path.empty()) return;
  Plan plan = report.plan;
  plan.profile_path = stored_path(options.inputs.profile_path, options.output_path);
  plan.platform_path = stored_path(options.inputs.platform_path, options.output_path);
  write_file_atomically(options.output_path, to_json(plan));
}

/// Prints the report, and what failures would leave of a month where that is asked for.
void print_report(const SimulateOptions& options, const Report& report,
                  const TuningProblem& problem) {
  std::optional<FailureAnswer> failures;
  if (options.failures.failures) {
    failures = answer_failures(options.failures, report, problem);
  }
  if (options.json) {
    nlohmann::ordered_json json = report_json(report);
    if (failures) json["failures"] = std::move(failures->json);
    print_json(json);
  } else {
    fmt::print("{}{}", report_text(report), failures ? failures->text : "");
  }
}

int simulate(SimulateOptions& options) {
  if (options.failures.failures) check_failures(options.failures);
  if (options.settings.any()) {
    require_other_files(options);
    return simulate_settings(options.settings, options.inputs,
                             {options.trace_path, options.sensitivity}, options.json);
  }
  require_option(!options.plan_path.empty() || !options.policy.empty(), "--plan, --policy",
                 "Give a plan file, the name of a policy, or settings of another system.");
  Plan plan;
  if (!options.plan_path.empty()) {
    plan = read_own_plan(options.plan_path);
    complete_from(plan, options.plan_path, options.inputs);
  }
  take_snapshots(options, plan);
  require_inputs(options.inputs);
  require_other_files(options);
  const LoadedProblem loaded(options.inputs);
  const TuningProblem& problem = loaded.problem();
  Engine engine(problem.platform, problem.request.num_gpus);
  if (options.plan_path.empty()) {
    plan = plan_of(options.policy, problem, engine, options.inputs.quiet);
  }
  plan.validate(problem.profile.architecture,
                options.plan_path.empty() ? "plan" : options.plan_path);

  const Report report =
      make_report(plan, loaded.scaled(), problem, engine,
                  {.trace_path = options.trace_path, .sensitivity = options.sensitivity});
  print_report(options, report, problem);
  if (!report.feasible) {
    throw plan_does_not_fit(plan, report.peak_bytes, problem);
  }
  write_plan(options, report);
  return kExitDone;
}

/// Adds the options that take settings of other systems. They exclude each other, plans and
/// policies.
void add_settings(CLI::App& verb, SettingsFiles& files) {
  const auto add = [&](const char* name, std::string& path, const char* help) {
    CLI::Option* option = verb.add_option(name, path, help)->type_name("FILE");
    for (const char* other : {"--plan", "--policy", "--deepspeed", "--accelerate"}) {
      CLI::Option* found = verb.get_option_no_throw(other);
      if (found != nullptr && found != option) option->excludes(found);
    }
    return option;
  };
  add("--deepspeed", files.deepspeed,
      "Settings of DeepSpeed (JSON): what they take, and what tune would change. Options give what "
      "they leave open (\"auto\")");
  add("--accelerate", files.accelerate, "Settings of accelerate (YAML) likewise");
  add("--torchtitan", files.torchtitan, "Settings of torchtitan (TOML) likewise");
  verb.add_flag("--recompute", files.recompute,
                "The script that runs the settings recomputes activations, which they do not say")
      ->excludes(verb.get_option("--plan"))
      ->excludes(verb.get_option("--policy"));
}

}  // namespace

void add_simulate(CLI::App& app, Action& action) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* verb = app.add_subcommand("simulate", "Predict one plan's step time and memory");
  verb->add_option("--platform", options->inputs.platform_path, "Platform: the machine")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Platforms));
  add_inputs(*verb, options->inputs);
  CLI::Option* plan =
      verb->add_option("--plan", options->plan_path, "Plan file")->type_name("FILE");
  verb->add_option(
          "--policy", options->policy,
          fmt::format("A named rule instead of a plan: auto, {}", fmt::join(policy_names(), ", ")))
      ->excludes(plan)
      ->type_name("NAME");
  verb->add_option(
          kSnapshotsBy, options->snapshot_way,
          "Let the plan's training survive the death of its processes: redo, versions or "
          "copy, as tune --snapshot has them; with the policy auto also every=1 (default: the "
          "plan's, or none)")
      ->type_name("WAY[,every=N][,copies=2[,send=SCHEME]]");
  verb->add_option("-o,--output", options->output_path,
                   "Write the plan here, where it fits; it names profile and platform relative to "
                   "its folder")
      ->type_name("FILE");
  add_settings(*verb, options->settings);
  add_failures(*verb, options->failures);
  for (const char* settings : {"--deepspeed", "--accelerate", "--torchtitan"}) {
    for (const char* other : {"--failures", kSnapshotsBy, "--output"}) {
      verb->get_option(other)->excludes(verb->get_option(settings));
    }
  }
  for (const char* pinned : {"--clip", "--micro-batch", "--adam-threads", "--adam-state",
                             "--deterministic", "--cuda-graphs"}) {
    verb->get_option(pinned)->excludes(plan);
  }
  verb->add_option("--trace", options->trace_path,
                   "Write the timeline here (opens in Perfetto); in a folder a file per rank")
      ->type_name("PATH");
  verb->add_flag("--sensitivity", options->sensitivity,
                 "Say what each part of the machine would be worth if it were twice as fast");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->callback([&action, options] { action = [options] { return simulate(*options); }; });
}

}  // namespace athanor::cli
