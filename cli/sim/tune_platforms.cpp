// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/tune_platforms.hpp"

#include "cli/common/child_processes.hpp"
#include "cli/common/progress_line.hpp"
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

/// A row's platform and what is asked of it.
struct RowInputs {
  std::string path;
  Platform platform;
  PlanRequest request;
};

/// Inputs of all rows, read and checked before any work starts.
struct Case {
  Profile profile;
  std::optional<Platform> measured_on;
  std::vector<RowInputs> rows;
};

PlanRequest request_on(int gpus, const PlatformsRequest& request) {
  PlanRequest plan_request = request.inputs.request();
  plan_request.num_gpus = gpus;
  if (request.batch_per_gpu > 0) plan_request.global_batch = request.batch_per_gpu * gpus;
  return plan_request;
}

Case read_case(const PlatformsRequest& request) {
  Case inputs;
  inputs.profile = read_profile(request.inputs.profile_path);
  inputs.measured_on = read_profile_platform(request.inputs.profile_platform_path, inputs.profile);
  for (const std::string& path : request.platforms) {
    const Platform platform = read_platform(path);
    const std::vector<int> counts =
        request.gpus.empty() ? std::vector{platform.num_devices} : request.gpus;
    for (const int gpus : counts) {
      inputs.rows.push_back({path, platform, request_on(gpus, request)});
    }
  }
  return inputs;
}

/// Returns the search threads of one row. Processors go to rows that run at once first.
int workers_per_row(const Case& inputs) {
  return std::max(1, usable_cores() / static_cast<int>(inputs.rows.size()));
}

nlohmann::ordered_json best_plan(const Case& inputs, const RowInputs& row) {
  const LoadedProblem loaded(inputs.profile, inputs.measured_on, row.platform, row.request);
  const TuningProblem& problem = loaded.problem();
  Engine engine(row.platform, row.request.num_gpus);
  const SearchOptions options{.keep = 1, .workers = workers_per_row(inputs)};
  const Plan best = search(problem, engine, default_search_space(problem), options).best;
  const Report report = make_report(best, loaded.scaled(), problem, engine);
  nlohmann::ordered_json json = report_json(report);
  json["plan_summary"] = plan_summary(best);
  return json;
}

/// Returns the report of one row, or the reason why there is none. Runs in the child.
std::string work_on(const Case& inputs, const RowInputs& row) {
  nlohmann::ordered_json answer;
  try {
    answer["report"] = best_plan(inputs, row);
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
  for (const RowInputs& of_row : inputs.rows) {
    PlatformRow row;
    row.platform = of_row.platform.name;
    row.path = of_row.path;
    row.gpus = of_row.request.num_gpus;
    row.nodes = of_row.platform.num_nodes(row.gpus);
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
    ProgressLine progress(progress_on_stderr(request.inputs.quiet));
    results = run_in_children(
        rows.size(), static_cast<std::size_t>(usable_cores()),
        [&](std::size_t i) { return work_on(inputs, inputs.rows[i]); },
        [&](std::size_t done) {
          progress.update("platforms", static_cast<std::int64_t>(done),
                          static_cast<std::int64_t>(rows.size()));
        });
  }
  for (std::size_t i = 0; i < rows.size(); ++i) fill(rows[i], results[i]);
  set_scaling(rows);
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
