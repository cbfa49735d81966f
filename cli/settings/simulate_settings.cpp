// SPDX-License-Identifier: Apache-2.0
// Implements athanor simulate for settings of other systems.
#include "cli/common/progress_line.hpp"
#include "cli/settings/settings_report.hpp"
#include "cli/sim/scaled_profile.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/model/memory.hpp"
#include "sim/search/search.hpp"
#include "sim/settings/fitting_keys.hpp"
#include "sim/settings/peer_plan.hpp"
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settings_kind.hpp"
#include "sim/settings/settled_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

/// Reads a file, after its settings were told from those of other systems.
std::string read_settings_of(const std::string& path, std::string_view option) {
  std::string text = read_text_file(path, kMiB);
  if (is_own_document(text)) {
    throw InputError(path,
                     fmt::format("is a file of athanor, and {} takes another system's", option),
                     "Give a plan as --plan.");
  }
  const auto kind = settings_kind(text);
  if (kind && kind->option != option) {
    throw InputError(path, fmt::format("holds settings of {}", kind->system),
                     fmt::format("Give it as {}.", kind->option));
  }
  return text;
}

/// Reads what an accelerate file at `beside` names: from the current folder, as accelerate does,
/// else from the file's own.
std::string read_named_file(const std::string& path, const std::string& beside) {
  const bool is_here = fs::path(path).is_absolute() || fs::exists(path);
  return read_text_file(is_here ? path : (fs::path(beside).parent_path() / path).string(), kMiB);
}

PeerSettings read_settings(const SettingsFiles& files) {
  if (!files.deepspeed.empty()) {
    return read_deepspeed(read_settings_of(files.deepspeed, "--deepspeed"), files.deepspeed);
  }
  if (!files.torchtitan.empty()) {
    return read_torchtitan(read_settings_of(files.torchtitan, "--torchtitan"), files.torchtitan);
  }
  const std::string& path = files.accelerate;
  return read_accelerate(read_settings_of(path, "--accelerate"), path,
                         [&](const std::string& named) { return read_named_file(named, path); });
}

/// Returns the inputs of tune for the same GPUs, batch and clipping. The micro-batch is open.
Inputs inputs_of(const PeerSettings& settings, Inputs inputs) {
  inputs.num_gpus = settings.num_gpus.value;
  inputs.global_batch = settings.global_batch.value;
  inputs.micro_batch = 0;
  inputs.clip.reset();
  if (settings.clip.value > 0) inputs.clip = settings.clip.value;
  return inputs;
}

/// Throws InputError where the platform does not say what offloading takes.
void require_curves(const PeerSettings& settings, const Platform& platform) {
  const auto require = [&](bool known, const Origin& origin, const char* what) {
    if (known) return;
    throw InputError(fmt::format("{}:{}", settings.file, text_of(origin)),
                     fmt::format("{} does not say what {} takes", platform.name, what),
                     "Calibrate the machine again, or keep it on the GPU.");
  };
  const Home home = settings.optimizer.value;
  require(home == Home::Gpu || !platform.cpu_adam.empty(), settings.optimizer.origin,
          "Adam on the CPU");
  require(home != Home::Nvme || has_nvme(platform), settings.optimizer.origin, "NVMe");
}

/// Searches the best plan. It may use as much NVMe as the settings do.
void add_tuned(SettingsReport& report, const LoadedProblem& loaded, Engine& engine, bool quiet) {
  TuningProblem problem = loaded.problem();
  const Bytes nvme = node_nvme_bytes(report.theirs.peak_bytes, problem.ranks_per_node);
  if (nvme > 0 && problem.request.limits.nvme == 0) {
    problem.request.limits.nvme = problem.limits.nvme = nvme;
    report.settings.notes.push_back(
        fmt::format("auto: tune may keep {} on NVMe, as the settings do", format_bytes(nvme)));
  }
  ProgressLine progress(progress_on_stderr(quiet));
  SearchOptions options{.keep = 1};
  options.progress = progress.callback();
  try {
    const Plan best = search(problem, engine, default_search_space(problem), options).best;
    report.tuned = make_report(best, loaded.scaled(), problem, engine);
  } catch (const InfeasibleError& error) {
    report.no_plan = error.what();
    return;
  }
  if (!is_better(*report.tuned, report.theirs)) return;
  report.changes =
      setting_changes(report.settings, report.theirs.plan, report.tuned->plan, problem, engine);
}

void print(const SettingsReport& report, bool json) {
  if (json) {
    print_json(settings_json(report));
    return;
  }
  for (const std::string& note : report.settings.notes) {
    fmt::print(stderr, "athanor-sim: note: {}\n", note);
  }
  fmt::print("{}", settings_text(report));
}

InfeasibleError does_not_fit(const SettingsReport& report, const TuningProblem& problem) {
  const std::string overflow = fmt::format(
      "{}",
      fmt::join(memory_overflows(report.theirs.peak_bytes, problem.ranks_per_node, problem.limits),
                "; "));
  const std::string what = fmt::format("{} does not fit: {}", report.settings.file, overflow);
  if (report.fitting.empty()) return {what, "No change of its keys would fit."};
  // A full stop would be copied with the last change.
  return {what, fmt::format("What would fit: {}", fmt::join(report.fitting, ", or "))};
}

}  // namespace

int simulate_settings(const SettingsFiles& files, const Inputs& given, const ReportOptions& options,
                      bool json) {
  PeerSettings settings = read_settings(files);
  settle_batch(settings, {given.num_gpus, given.global_batch, given.micro_batch, given.clip,
                          files.recompute});
  const Inputs inputs = inputs_of(settings, given);
  require_profile_and_platform(inputs);
  const LoadedProblem loaded(inputs);
  const TuningProblem& problem = loaded.problem();
  settle_model(settings, problem.profile);
  require_curves(settings, problem.platform);
  Engine engine(problem.platform, problem.request.num_gpus);
  const Plan plan = peer_plan(settings, problem.profile, problem.platform, problem.request);
  SettingsReport report{std::move(settings),
                        make_report(plan, loaded.scaled(), problem, engine, options),
                        std::nullopt,
                        "",
                        {},
                        {}};
  if (!report.theirs.feasible) report.fitting = fitting_keys(report.settings, problem);
  add_tuned(report, loaded, engine, given.quiet);
  print(report, json);
  if (!report.theirs.feasible) throw does_not_fit(report, problem);
  return kExitDone;
}

}  // namespace athanor::cli
