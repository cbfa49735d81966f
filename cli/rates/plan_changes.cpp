// SPDX-License-Identifier: Apache-2.0
#include "cli/rates/plan_changes.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace athanor::cli {
namespace {

void add_change(const nlohmann::json& start, std::vector<PlanChange>& changes) {
  const auto found = start.find("changed_plan");
  if (found == start.end()) return;
  const PlanChange change{.after_step = found->at("after_step").get<std::int64_t>(),
                          .before = found->at("current_step_seconds").get<Seconds>(),
                          .after = found->at("best_step_seconds").get<Seconds>(),
                          .changes = found->at("changes").get<std::vector<std::string>>(),
                          .moved_rates = found->at("moved_rates").get<std::vector<std::string>>()};
  if (changes.empty() || changes.back() != change) changes.push_back(change);
}

}  // namespace

std::vector<PlanChange> plan_changes(const nlohmann::json& record, const std::string& where) {
  std::vector<PlanChange> changes;
  try {
    if (const auto history = record.find("history"); history != record.end()) {
      for (const nlohmann::json& start : *history) add_change(start, changes);
    }
    add_change(record, changes);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(where + ":changed_plan", error.what(), "Use the run.json of a run.");
  }
  return changes;
}

nlohmann::ordered_json to_json(const std::vector<PlanChange>& changes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlanChange& change : changes) {
    list.push_back({{"after_step", change.after_step},
                    {"predicted_before", change.before},
                    {"predicted_after", change.after},
                    {"changes", change.changes},
                    {"moved_rates", change.moved_rates}});
  }
  return list;
}

std::string text_of(const PlanChange& change) {
  const std::string why =
      change.moved_rates.empty() ? "" : fmt::format("{}; ", fmt::join(change.moved_rates, ", "));
  return fmt::format("after step {}: {}a step is predicted to take {} instead of {} ({})",
                     change.after_step, why, format_seconds(change.after),
                     format_seconds(change.before), fmt::join(change.changes, "; "));
}

}  // namespace athanor::cli
