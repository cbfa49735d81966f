// SPDX-License-Identifier: Apache-2.0
#include "cli/compare/run_data.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <utility>

namespace athanor::cli {
namespace {

constexpr std::size_t kWarmUpSteps = 2;
constexpr const char* kPeakKey = "memory/device_peak_bytes";

double number_of(const nlohmann::json& line, const char* key, const std::string& where) {
  const auto found = line.find(key);
  if (found != line.end() && found->is_number()) {
    const auto value = found->get<double>();
    if (std::isfinite(value) && value >= 0) return value;
  }
  throw InputError(where + ":" + key, "no number of zero or more",
                   "Use the metrics.jsonl that athanor train wrote.");
}

nlohmann::json parse_line(const std::string& text, const std::string& where) {
  constexpr std::size_t kLongest = 1 << 16;  // a line has some hundred bytes
  if (text.size() <= kLongest) {
    nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_object()) return line;
  }
  throw InputError(where, "is no JSON object", "Use the metrics.jsonl that athanor train wrote.");
}

/// Returns a quantile of a sorted list that is not empty; it is linear between its values.
Seconds quantile(const std::vector<Seconds>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

/// Takes from run.json the second prediction and the changes of the plan. Folders of older runs
/// have none.
void read_record(const std::string& path, RunData& data) {
  if (!std::filesystem::exists(path)) return;
  const nlohmann::json json =
      nlohmann::json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw InputError(path, "is no JSON object", "Use the run.json of a run.");
  const auto found = json.find("repredicted_step_seconds");
  if (found != json.end() && found->is_number()) data.repredicted_step = found->get<Seconds>();
  data.changes = plan_changes(json, path);
}

/// Returns the lines of the steps under the plan that the run had last; all where there are none.
std::vector<MetricsLine> lines_of_last_plan(const RunData& run) {
  std::vector<MetricsLine> lines = run.steps;
  if (run.changes.empty()) return lines;
  std::erase_if(lines, [&](const MetricsLine& line) {
    const auto step = line.values.find("step");
    return step != line.values.end() && step->is_number_integer() &&
           step->get<std::int64_t>() <= run.changes.back().after_step;
  });
  return lines.empty() ? run.steps : lines;
}

}  // namespace

std::vector<MetricsLine> read_metrics_lines(const std::string& path) {
  std::istringstream text(read_text_file(path));
  std::vector<MetricsLine> lines;
  std::string line;
  for (std::int64_t number = 1; std::getline(text, line); ++number) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    lines.push_back({parse_line(line, where), where});
  }
  if (lines.empty()) throw InputError(path, "holds no step", "Train for a step or more.");
  return lines;
}

Metrics metrics_of(const std::vector<MetricsLine>& lines) {
  std::vector<Seconds> seconds;
  std::vector<double> norms;
  double peak = 0;
  for (const MetricsLine& line : lines) {
    seconds.push_back(number_of(line.values, kStepSecondsKey, line.where));
    peak = std::max(peak, number_of(line.values, kPeakKey, line.where));
    const auto norm = line.values.find("grad_norm");
    if (norm != line.values.end() && norm->is_number()) norms.push_back(norm->get<double>());
  }
  if (seconds.size() > kWarmUpSteps) seconds.erase(seconds.begin(), seconds.begin() + kWarmUpSteps);
  std::ranges::sort(seconds);
  constexpr double kMiddle = 0.5;
  constexpr double kDecile = 0.1;
  return {.step_seconds = quantile(seconds, kMiddle),
          .low_seconds = quantile(seconds, kDecile),
          .high_seconds = quantile(seconds, 1 - kDecile),
          .peak_bytes = static_cast<Bytes>(peak),
          .num_steps = std::ssize(seconds),
          .gradient_norms = std::move(norms)};
}

RunData read_run(const std::string& run) {
  const auto in_run = [&](const char* name) {
    return (std::filesystem::path(run) / name).string();
  };
  RunData data;
  data.plan = read_plan(in_run("plan.json"));
  data.profile = read_profile(in_run("profile.json"));
  data.platform = read_platform(in_run("platform.json"));
  data.steps = read_metrics_lines(in_run("metrics.jsonl"));
  read_record(in_run("run.json"), data);
  data.metrics = metrics_of(lines_of_last_plan(data));
  data.program = lower(data.profile, data.plan);
  data.measured = read_trace(in_run("measured.trace.json"), data.program);
  return data;
}

}  // namespace athanor::cli
