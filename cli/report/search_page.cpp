// SPDX-License-Identifier: Apache-2.0
#include "cli/report/search_page.hpp"

#include "cli/sim/report.hpp"
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/search/evaluated.hpp"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOfOutcome = 300;
constexpr const char* kRemake = "Use what athanor tune --json printed.";

void check_positive(JsonReader object, const char* key) {
  const JsonReader value = object.key(key);
  if (value.number() <= 0) value.reject("is not above zero", kRemake);
}

void check_peak(JsonReader peak) {
  for (const char* tier : {"gpu", "pinned", "host", "nvme"}) {
    static_cast<void>(peak.key(tier).integer(0));
  }
}

void check_numbers(JsonReader object) {
  for (const std::string& name : object.keys()) static_cast<void>(object.key(name).number());
}

void check_sensitivity(JsonReader sensitivity) {
  for (const std::string& lane : sensitivity.keys()) {
    check_positive(sensitivity.key(lane), "step_seconds");
    check_positive(sensitivity.key(lane), "speedup");
  }
}

Outcome check_ranked(JsonReader entry) {
  static_cast<void>(entry.key("rank").integer(1));
  const Outcome outcome = entry.key("outcome").choice(kOutcomeNames);
  if (outcome == Outcome::Simulated) check_positive(entry, "step_seconds");
  if (outcome == Outcome::Pruned) check_positive(entry, "bound_seconds");
  check_peak(entry.key("peak_bytes"));
  static_cast<void>(entry.key("reason").string());
  static_cast<void>(entry.key("choices").keys());
  return outcome;
}

void check_front(JsonReader front) {
  for (const char* key : {"gpu_step_bytes", "host_step_bytes"}) {
    static_cast<void>(front.key(key).integer(0));
  }
  static_cast<void>(front.key("time_share").number());
  for (JsonReader plan : front.key("plans").items()) {
    check_positive(plan, "step_seconds");
    check_peak(plan.key("peak_bytes"));
    static_cast<void>(plan.key("node_host_bytes").integer(0));
    static_cast<void>(plan.key("bottleneck").string());
    static_cast<void>(plan.key("choices").keys());
  }
}

/// Checks what a page shows of one plan's report.
void check_report(JsonReader report) {
  check_positive(report, "step_seconds");
  if (report.has("step_seconds_p10")) {  // not in what older versions wrote
    check_positive(report, "step_seconds_p10");
    check_positive(report, "step_seconds_p90");
  }
  check_positive(report, "tokens_per_second");
  static_cast<void>(report.key("model_flops_utilization").number());
  check_peak(report.key("peak_bytes"));
  static_cast<void>(report.key("bottleneck").string());
  check_numbers(report.key("critical_path"));
  if (const auto sensitivity = report.optional_key("sensitivity")) check_sensitivity(*sensitivity);
  if (report.has("step_seconds_low")) {
    check_positive(report, "step_seconds_low");
    check_positive(report, "step_seconds_high");
    static_cast<void>(report.key("profile_device").string());
  }
}

void check_search(JsonReader result) {
  check_report(result);
  if (auto searched = result.optional_key("searched")) {
    for (const char* key : {"plans", "simulated", "pruned", "not_fitting"}) {
      static_cast<void>(searched->key(key).integer(0));
    }
  }
  if (const auto top = result.optional_key("top")) {
    for (const JsonReader& entry : top->items()) check_ranked(entry);
  }
  if (const auto front = result.optional_key("pareto")) check_front(*front);
}

void check_platform_row(JsonReader row) {
  static_cast<void>(row.key("platform").string());
  static_cast<void>(row.key("gpus").integer(1));
  static_cast<void>(row.key("nodes").integer(1));
  if (row.has("price_per_hour")) static_cast<void>(row.key("price_per_hour").number());
  if (row.key("outcome").string() != "planned") {
    static_cast<void>(row.key("reason").string());
    return;
  }
  check_report(row);
  static_cast<void>(row.key("plan_summary").string());
}

/// Lines that hold something, and where each stands.
std::vector<std::pair<std::string, std::string>> lines_of(std::string_view text,
                                                          const std::string& file) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::istringstream stream{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (!line.empty()) lines.emplace_back(line, fmt::format("{}:{}", file, number));
  }
  return lines;
}

}  // namespace

Json search_page(const nlohmann::json& document, const std::string& file) {
  JsonReader reader(document, ValuePath(file));
  check_search(reader);
  const JsonReader stored = reader.key("plan");
  const Plan plan = parse_plan(document.at("plan").dump(), stored.path().text());
  return {{"kind", "search"}, {"result", Json(document)}, {"plan_summary", plan_summary(plan)}};
}

Json candidates_json(std::string_view text, const std::string& file) {
  std::map<std::string, std::size_t> counts;
  Json plans = Json::array();
  for (const auto& [line, where] : lines_of(text, file)) {
    const nlohmann::json entry = parse_json(line, where);
    const std::string outcome(
        name_of(kOutcomeNames, check_ranked(JsonReader(entry, ValuePath(where)))));
    if (++counts[outcome] <= kMostOfOutcome) plans.emplace_back(entry);
  }
  if (plans.empty()) throw InputError(file, "holds no plan", "Use what athanor tune --all wrote.");
  return {{"plans", std::move(plans)}, {"counts", counts}};
}

Json platforms_page(const nlohmann::json& document, const std::string& file) {
  JsonReader reader(document, ValuePath(file));
  const JsonReader platforms = reader.key("platforms");
  if (platforms.items().empty()) platforms.reject("holds no platform", kRemake);
  for (const JsonReader& row : platforms.items()) check_platform_row(row);
  return {{"kind", "platforms"}, {"platforms", Json(document.at("platforms"))}};
}

}  // namespace athanor::cli
