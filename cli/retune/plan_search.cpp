// SPDX-License-Identifier: Apache-2.0
#include "cli/retune/plan_search.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace athanor::cli {
namespace {

std::vector<std::string> command_of(const PlanSearch::Request& request) {
  return {"retune",
          request.run.path,
          "--output",
          request.output,
          "--gain",
          fmt::format("{}", request.margin),
          "--within",
          fmt::format("{}", request.within.gpu),
          fmt::format("{}", request.within.host),
          fmt::format("{}", request.within.nvme),
          "--json",
          "--end-with",
          fmt::format("{}", ::getpid())};
}

}  // namespace

std::optional<FoundPlan> parse_found_plan(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    FoundPlan found{.current = json.at("current_step_seconds").get<Seconds>(),
                    .best = json.at("best_step_seconds").get<Seconds>(),
                    .is_better = json.at("is_better").get<bool>(),
                    .changes = json.at("changes").get<std::vector<std::string>>(),
                    .moved_rates = json.at("moved_rates").get<std::vector<std::string>>(),
                    .first_step = json.at("first_step").get<std::int64_t>(),
                    .last_step = json.at("last_step").get<std::int64_t>()};
    return found.current > 0 && found.best > 0 ? std::optional(found) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // the caller says that it is no answer
  }
}

PlanSearch::PlanSearch(const Request& request, Priority priority)
    : program_("athanor-sim", command_of(request), priority) {}

std::optional<PlanSearch::Answer> PlanSearch::poll() {
  const std::optional<BackgroundProgram::Result> result = program_.poll();
  if (!result) return std::nullopt;
  if (!result->failure.empty()) return Answer{std::nullopt, result->failure};
  Answer answer{parse_found_plan(result->output), ""};
  if (!answer.found) answer.failure = "athanor-sim printed no answer";
  return answer;
}

}  // namespace athanor::cli
