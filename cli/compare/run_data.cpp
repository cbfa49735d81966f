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
constexpr const char* kPredictedKey = "predicted_step_seconds";

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

/// Returns the step of a line; -1: it has none.
std::int64_t step_of(const MetricsLine& line) {
  const auto step = line.values.find("step");
  return step != line.values.end() && step->is_number_integer() ? step->get<std::int64_t>() : -1;
}

/// Returns the place of the first step since the run was last resumed with another plan: there the
/// prediction on the lines changes, and no change of the plan while training says why.
std::size_t first_of_last_plan(const RunData& run) {
  const auto prediction = [](const MetricsLine& line) {
    return line.values.value(kPredictedKey, nlohmann::json());
  };
  for (std::size_t i = run.steps.size(); i-- > 1;) {
    const MetricsLine& before = run.steps[i - 1];
    if (prediction(before) == prediction(run.steps[i])) continue;
    const auto is_here = [&](const PlanChange& change) {
      return change.after_step == step_of(before);
    };
    if (std::ranges::none_of(run.changes, is_here)) return i;
  }
  return 0;
}

/// Returns the lines of the steps under the plan that the run had last. Right after a change there
/// are none: then those before it stand for them.
std::vector<MetricsLine> lines_of_last_plan(const RunData& run) {
  std::vector<MetricsLine> since_resumed = steps_since_resumed(run);
  if (run.changes.empty()) return since_resumed;
  std::vector<MetricsLine> lines = since_resumed;
  std::erase_if(lines, [&](const MetricsLine& line) {
    const std::int64_t step = step_of(line);
    return step >= 0 && step <= run.changes.back().after_step;
  });
  return lines.empty() ? since_resumed : lines;
}

void require_run(const std::string& run, const std::string& plan) {
  if (std::filesystem::exists(plan)) return;
  throw InputError(run, "is no run: there is no plan.json in it",
                   "Name the folder that `athanor train --output` wrote.");
}

void require_trace(const std::string& path) {
  if (std::filesystem::exists(path)) return;
  throw InputError(path, "is not there: train writes it at its end",
                   "Wait for the end of the run, or go on with one that was stopped: "
                   "`athanor train --resume`.");
}

}  // namespace

std::vector<MetricsLine> steps_since_resumed(const RunData& run) {
  return {run.steps.begin() + static_cast<std::ptrdiff_t>(run.first_of_last_plan), run.steps.end()};
}

std::vector<MetricsLine> read_metrics_lines(const std::string& path) {
  std::istringstream text(read_text_file(path));
  std::vector<MetricsLine> lines;
  std::string line;
  for (std::int64_t number = 1; std::getline(text, line); ++number) {
    if (line.empty()) continue;
    const bool is_torn = text.eof() && !nlohmann::json::accept(line);
    if (is_torn) break;  // the run is writing it, or was killed while it did
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
  require_run(run, in_run("plan.json"));
  data.plan = read_plan(in_run("plan.json"));
  data.profile = read_profile(in_run("profile.json"));
  data.platform = read_platform(in_run("platform.json"));
  data.steps = read_metrics_lines(in_run("metrics.jsonl"));
  read_record(in_run("run.json"), data);
  data.first_of_last_plan = first_of_last_plan(data);
  data.metrics = metrics_of(lines_of_last_plan(data));
  data.program = lower(data.profile, data.plan);
  require_trace(in_run("measured.trace.json"));
  data.measured = read_trace(in_run("measured.trace.json"), data.program);
  return data;
}

}  // namespace athanor::cli
