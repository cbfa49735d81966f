// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/tune_platforms.hpp"

#include "cli/common/child_processes.hpp"
#include "cli/sim/platform_table.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/scaled_profile.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/formats/files.hpp"
#include "sim/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor::cli {
namespace {

/// Inputs of all rows, read and checked before any work starts.
struct Case {
  Profile profile;
  std::optional<Platform> measured_on;
  std::vector<Platform> platforms;
};

PlanRequest request_on(const Platform& platform, const PlatformsRequest& request) {
  PlanRequest plan_request = request.inputs.request();
  if (plan_request.num_gpus == 0) plan_request.num_gpus = platform.num_devices;
  return plan_request;
}

Case read_case(const PlatformsRequest& request) {
  Case inputs;
  inputs.profile = read_profile(request.inputs.profile_path);
  inputs.measured_on = read_profile_platform(request.inputs.profile_platform_path, inputs.profile);
  for (const std::string& path : request.platforms) {
    inputs.platforms.push_back(read_platform(path));
  }
  return inputs;
}

/// Returns the search threads of one platform. Processors go to platforms that run at once first.
int workers_per_platform(const Case& inputs) {
  return std::max(1, usable_cores() / static_cast<int>(inputs.platforms.size()));
}

nlohmann::ordered_json best_plan(const Case& inputs, const Platform& platform,
                                 const PlanRequest& request) {
  const LoadedProblem loaded(inputs.profile, inputs.measured_on, platform, request);
  const TuningProblem& problem = loaded.problem();
  Engine engine(platform, request.num_gpus);
  const SearchOptions options{.keep = 1, .workers = workers_per_platform(inputs)};
  const Plan best = search(problem, engine, default_search_space(problem), options).best;
  const Report report = make_report(best, loaded.scaled(), problem, engine);
  nlohmann::ordered_json json = report_json(report);
  json["plan_summary"] = plan_summary(best);
  return json;
}

/// Returns the report of one platform, or the reason why there is none. Runs in the child.
std::string work_on(const Case& inputs, const Platform& platform, const PlanRequest& request) {
  nlohmann::ordered_json answer;
  try {
    answer["report"] = best_plan(inputs, platform, request);
    answer["outcome"] = PlatformOutcome::Planned;
  } catch (const InfeasibleError& error) {
    answer = {{"outcome", PlatformOutcome::DoesNotFit}, {"reason", error.what()}};
  } catch (const InputError& error) {
    answer = {{"outcome", PlatformOutcome::CannotRun}, {"reason", error.what()}};
  }
  return answer.dump();
}

void fill(PlatformRow& row, const ChildResult& result) {
  if (!result.failure.empty()) {
    row.reason = result.failure;
    return;
  }
  const auto answer = nlohmann::ordered_json::parse(result.output);
  row.outcome = answer.at("outcome").get<PlatformOutcome>();
  row.reason = answer.value("reason", "");
  if (row.outcome == PlatformOutcome::Planned) row.report = answer.at("report");
}

int exit_code(const std::vector<PlatformRow>& rows) {
  const auto any = [&](PlatformOutcome outcome) {
    return std::ranges::find(rows, outcome, &PlatformRow::outcome) != rows.end();
  };
  if (any(PlatformOutcome::Failed)) return kExitFailed;
  if (any(PlatformOutcome::Planned)) return kExitDone;
  return any(PlatformOutcome::DoesNotFit) ? kExitInfeasible : kExitBadInput;
}

std::vector<PlatformRow> rows_of(const Case& inputs, const PlatformsRequest& request) {
  std::vector<PlatformRow> rows;
  for (std::size_t i = 0; i < inputs.platforms.size(); ++i) {
    PlatformRow row;
    row.platform = inputs.platforms[i].name;
    row.path = request.platforms[i];
    row.gpus = request_on(inputs.platforms[i], request).num_gpus;
    row.nodes = inputs.platforms[i].num_nodes(row.gpus);
    rows.push_back(row);
  }
  set_prices(request.prices, rows);
  return rows;
}

}  // namespace

int tune_platforms(const PlatformsRequest& request) {
  const Case inputs = read_case(request);
  std::vector<PlatformRow> rows = rows_of(inputs, request);
  std::vector<ChildResult> results;
  {
    ProgressLine progress;
    results = run_in_children(
        rows.size(), static_cast<std::size_t>(usable_cores()),
        [&](std::size_t i) {
          return work_on(inputs, inputs.platforms[i], request_on(inputs.platforms[i], request));
        },
        [&](std::size_t done) {
          progress.update("platforms", static_cast<std::int64_t>(done),
                          static_cast<std::int64_t>(rows.size()));
        });
  }
  for (std::size_t i = 0; i < rows.size(); ++i) fill(rows[i], results[i]);
  sort_rows(rows);
  if (request.json) {
    nlohmann::ordered_json json{{"platforms", nlohmann::ordered_json::array()}};
    for (const PlatformRow& row : rows) json["platforms"].push_back(row_json(row));
    print_json(json);
  } else {
    fmt::print("{}", table_text(rows));
  }
  return exit_code(rows);
}

}  // namespace athanor::cli
