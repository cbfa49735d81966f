// SPDX-License-Identifier: Apache-2.0
// athanor tune: finds the fastest plan that fits.
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/scaled_profile.hpp"
#include "cli/sim/tune_platforms.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/model/errors.hpp"
#include "sim/model/files.hpp"
#include "sim/model/lowering.hpp"
#include "sim/model/names.hpp"
#include "sim/tune/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace athanor::cli {
namespace {

struct TuneOptions {
  Inputs inputs;
  std::vector<std::string> platforms, prices;
  std::string plan_path, all_path;
  int top = 0;
  bool json = false, sensitivity = false;
};

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::Simulated:
      return "simulated";
    case Outcome::Bounded:
      return "bounded";
    case Outcome::DoesNotFit:
      return "does-not-fit";
  }
  return "unknown";
}

nlohmann::ordered_json choices_json(const Candidate& c) {
  return {{"micro_batch", c.batch.micro_batch},
          {"accumulation", c.batch.accumulation},
          {"sharding", name_of(kShardingNames, c.sharding)},
          {"chunk_elements", c.chunk_elements},
          {"recompute_units", c.recompute_units},
          {"leading_gpu_optimizer", c.leading_gpu_optimizer},
          {"trailing_gpu_optimizer", c.trailing_gpu_optimizer},
          {"leading_gpu_parameters", c.leading_gpu_parameters},
          {"trailing_gpu_parameters", c.trailing_gpu_parameters},
          {"cache_slots", c.cache_slots},
          {"prefetch_depth", c.prefetch_depth},
          {"gradient_buffers", c.gradient_buffers},
          {"adam_threads", c.adam_threads}};
}

nlohmann::ordered_json evaluated_json(const Evaluated& e, std::size_t rank) {
  nlohmann::ordered_json json;
  json["rank"] = rank;
  json["outcome"] = outcome_name(e.outcome);
  if (e.outcome == Outcome::Simulated) json["step_seconds"] = e.step_seconds;
  if (e.outcome != Outcome::DoesNotFit) json["bound_seconds"] = e.bound_seconds;
  json["peak_bytes"] = peak_json(e.peak_bytes);
  json["reason"] = e.reason;
  json["choices"] = choices_json(e.candidate);
  return json;
}

std::size_t num_shown(const SearchResult& result, const TuneOptions& options) {
  return std::min(result.ranked.size(), static_cast<std::size_t>(options.top));
}

std::string table_text(const SearchResult& result, const Profile& profile,
                       const PlanRequest& request, std::size_t rows) {
  std::string text =
      fmt::format("\n{:>4}  {:>9}  {:>9}  {:<44}  {}\n", "rank", "step", "gpu", "why not", "plan");
  for (std::size_t i = 0; i < rows; ++i) {
    const Evaluated& e = result.ranked[i];
    const std::string step = e.outcome == Outcome::Simulated ? format_seconds(e.step_seconds)
                             : e.outcome == Outcome::Bounded
                                 ? "> " + format_seconds(e.bound_seconds)
                                 : std::string("-");
    text += fmt::format("{:>4}  {:>9}  {:>9}  {:<44}  {}\n", i + 1, step,
                        format_bytes(e.peak_bytes.gpu), e.reason.empty() ? "the best" : e.reason,
                        plan_summary(make_plan(e.candidate, profile, request)));
  }
  return text;
}

std::string counts_text(const SearchResult& result) {
  return fmt::format("searched     {} plans: {} simulated, {} ruled out by bound, {} do not fit\n",
                     result.ranked.size(), result.num_simulated, result.num_bounded,
                     result.num_not_fitting);
}

void write_all(const SearchResult& result, const std::string& path) {
  std::string lines;
  for (std::size_t i = 0; i < result.ranked.size(); ++i) {
    lines += evaluated_json(result.ranked[i], i + 1).dump() + "\n";
  }
  write_file_atomically(path, lines);
}

nlohmann::ordered_json tune_json(const Report& report, const SearchResult& result,
                                 std::size_t rows) {
  nlohmann::ordered_json json = report_json(report);
  json["searched"] = {{"plans", result.ranked.size()},
                      {"simulated", result.num_simulated},
                      {"bounded", result.num_bounded},
                      {"not_fitting", result.num_not_fitting}};
  json["top"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < rows; ++i) {
    json["top"].push_back(evaluated_json(result.ranked[i], i + 1));
  }
  return json;
}

SearchResult run_search(const TuneOptions& options, const Profile& profile,
                        const Platform& platform, Engine& engine) {
  constexpr int kKeep = 10;
  const PlanRequest request = options.inputs.request();
  ProgressLine progress;
  SearchOptions search_options;
  search_options.keep = std::max(kKeep, options.top);
  search_options.progress = [&](const std::string& stage, std::int64_t done, std::int64_t total) {
    progress.update(stage, done, total);
  };
  return search(profile, platform, engine, default_search_space(profile, platform, request),
                request, search_options);
}

int tune_one(const TuneOptions& options) {
  require_option(options.inputs.num_gpus > 0, "--gpus", "Say how many GPUs to use.");
  const Profile measured = read_profile(options.inputs.profile_path);
  const Platform platform = read_platform(options.inputs.platform_path);
  const ScaledProfile scaled = profile_for(
      measured, read_profile_platform(options.inputs.profile_platform_path, measured), platform);
  const Profile& profile = scaled.profile;
  const PlanRequest request = options.inputs.request();
  validate_request(request, profile, platform);
  warn_about(profile, platform, request.limits);
  Engine engine(platform, request.num_gpus);
  const SearchResult result = run_search(options, profile, platform, engine);

  Report report =
      make_report(result.best, scaled, platform, engine, effective_limits(request, platform), "");
  if (options.sensitivity) {
    report.sensitivities = sensitivities(lower(profile, report.plan), engine);
  }
  if (!options.plan_path.empty()) {
    report.plan.profile_path = stored_path(options.inputs.profile_path, options.plan_path);
    report.plan.platform_path = stored_path(options.inputs.platform_path, options.plan_path);
    write_file_atomically(options.plan_path, to_json(report.plan));
  }
  if (!options.all_path.empty()) write_all(result, options.all_path);
  const std::size_t rows = num_shown(result, options);
  if (options.json) {
    print_json(tune_json(report, result, rows));
    return kExitDone;
  }
  fmt::print("{}{}", report_text(report), counts_text(result));
  if (rows > 0) fmt::print("{}", table_text(result, profile, request, rows));
  return kExitDone;
}

/// Several platforms, or prices, make a table: what is about one plan has no place there.
int tune(TuneOptions& options) {
  if (options.platforms.size() == 1 && options.prices.empty()) {
    options.inputs.platform_path = options.platforms.front();
    return tune_one(options);
  }
  const auto refuse = [](bool given, const char* option) {
    if (!given) return;
    throw InputError(option, "is about one platform, and this is a table of platforms",
                     "Leave it out, and tune the platform that you choose alone.");
  };
  refuse(!options.plan_path.empty(), "--output");
  refuse(!options.all_path.empty(), "--all");
  refuse(options.top > 0, "--top");
  refuse(options.sensitivity, "--sensitivity");
  return tune_platforms({options.inputs, options.platforms, options.prices, options.json});
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* verb = app.add_subcommand("tune", "Finds the fastest plan that fits");
  verb->add_option("--platform", options->platforms,
                   "Platforms: one machine, or several for a table (--gpus: default all of each)")
      ->type_name("FILE");
  add_inputs(*verb, options->inputs);
  verb->add_option("--price", options->prices,
                   "Price of a platform per hour, by the name of its file: h200x8=25.5")
      ->type_name("NAME=PRICE");
  for (const char* required : {"--profile", "--platform", "--global-batch"}) {
    verb->get_option(required)->required();
  }
  verb->add_option("-o,--output", options->plan_path,
                   "Write the plan here; it names profile and platform relative to its folder")
      ->type_name("FILE");
  add_count(*verb, "--top", options->top, "Rank this many plans, with the reason each lost");
  verb->add_option("--all", options->all_path, "Write every plan tried, one JSON object per line")
      ->type_name("FILE");
  verb->add_flag("--sensitivity", options->sensitivity,
                 "Say what each part of the machine would be worth if it were twice as fast");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->callback([&action, options] { action = [options] { return tune(*options); }; });
}

}  // namespace athanor::cli
