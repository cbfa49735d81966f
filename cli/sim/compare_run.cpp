// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/compare_run.hpp"

#include "sim/engine/engine.hpp"
#include "sim/model/errors.hpp"
#include "sim/model/files.hpp"
#include "sim/model/lowering.hpp"
#include "sim/model/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

namespace athanor::cli {
namespace {

constexpr std::size_t kWarmUpSteps = 2;
constexpr const char* kStepKey = "time_metrics/end_to_end(s)";
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
  nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (line.is_object()) return line;
  throw InputError(where, "is no JSON object", "Use the metrics.jsonl that athanor train wrote.");
}

/// Of a list that is not empty.
Seconds median(std::vector<Seconds> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Seconds of rank 0 by kind, and the steps that they are from. The first step of several is left
/// out: it starts from an idle machine.
struct KindTotals {
  std::map<OpKind, Seconds> seconds, issue;
  std::size_t num_steps = 0;
};

KindTotals total_by_kind(const Program& program, const Timeline& timeline) {
  std::set<std::int32_t> steps;
  for (const Interval& interval : timeline.intervals) {
    if (interval.rank == 0) steps.insert(interval.step);
  }
  if (steps.size() > 1) steps.erase(steps.begin());
  KindTotals totals;
  totals.num_steps = steps.size();
  for (const Interval& interval : timeline.intervals) {
    if (interval.rank != 0 || !steps.contains(interval.step)) continue;
    const OpKind kind = program.operations[static_cast<std::size_t>(interval.operation)].kind;
    totals.seconds[kind] += interval.end - interval.start;
    totals.issue[kind] += interval.issue_end - interval.issue_start;
  }
  return totals;
}

std::vector<KindComparison> compare_kinds(const Program& program, const Timeline& predicted,
                                          const Timeline& measured) {
  const auto per_step = [](const KindTotals& totals, auto member, OpKind kind) {
    const auto found = (totals.*member).find(kind);
    if (found == (totals.*member).end() || totals.num_steps == 0) return 0.0;
    return found->second / static_cast<double>(totals.num_steps);
  };
  std::map<OpKind, std::int64_t> counts;
  for (const Operation& op : program.operations) ++counts[op.kind];
  const KindTotals predicted_totals = total_by_kind(program, predicted);
  const KindTotals measured_totals = total_by_kind(program, measured);
  std::vector<KindComparison> kinds;
  for (const auto& [kind, count] : counts) {
    kinds.push_back({.kind = kind,
                     .count = count,
                     .predicted = per_step(predicted_totals, &KindTotals::seconds, kind),
                     .measured = per_step(measured_totals, &KindTotals::seconds, kind),
                     .predicted_issue = per_step(predicted_totals, &KindTotals::issue, kind),
                     .measured_issue = per_step(measured_totals, &KindTotals::issue, kind)});
  }
  return kinds;
}

std::string ratio_text(double numerator, double denominator) {
  return denominator > 0 ? fmt::format("{:.2f}", numerator / denominator) : std::string("-");
}

std::string kind_row(const KindComparison& kind, Seconds predicted, Seconds measured) {
  return fmt::format("{:<12} {:>6} {:>12} {:>12} {:>20}\n", op_kind_name(kind.kind), kind.count,
                     format_seconds(predicted), format_seconds(measured),
                     ratio_text(measured, predicted));
}

/// The host's part, where operations are issued.
std::string issue_text(const Comparison& comparison) {
  std::string text;
  for (const KindComparison& kind : comparison.kinds) {
    if (kind.predicted_issue <= 0 && kind.measured_issue <= 0) continue;
    text += kind_row(kind, kind.predicted_issue, kind.measured_issue);
  }
  return text.empty() ? text : "\nissued by the host\n" + text;
}

}  // namespace

double Comparison::step_error() const noexcept {
  return measured_step > 0 ? std::abs(predicted_step - measured_step) / measured_step : 0;
}

Metrics read_metrics(const std::string& path) {
  std::istringstream lines(read_text_file(path));
  std::vector<Seconds> seconds;
  double peak = 0;
  std::string text;
  for (std::int64_t number = 1; std::getline(lines, text); ++number) {
    if (text.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const nlohmann::json line = parse_line(text, where);
    seconds.push_back(number_of(line, kStepKey, where));
    peak = std::max(peak, number_of(line, kPeakKey, where));
  }
  if (seconds.empty()) throw InputError(path, "holds no step", "Train for a step or more.");
  if (seconds.size() > kWarmUpSteps) seconds.erase(seconds.begin(), seconds.begin() + kWarmUpSteps);
  const auto count = static_cast<std::int64_t>(seconds.size());
  return {median(std::move(seconds)), static_cast<Bytes>(peak), count};
}

Comparison compare_run(const std::string& run) {
  const auto in_run = [&](const char* name) {
    return (std::filesystem::path(run) / name).string();
  };
  const Plan plan = read_plan(in_run("plan.json"));
  const Profile profile = read_profile(in_run("profile.json"));
  const Platform platform = read_platform(in_run("platform.json"));
  const Metrics metrics = read_metrics(in_run("metrics.jsonl"));
  const Program program = lower(profile, plan);
  const Timeline measured = read_trace(in_run("measured.trace.json"), program);
  Engine engine(platform, plan.world_size);
  const Timeline predicted = engine.simulate(program);

  std::ostringstream trace;
  write_trace(trace, program, predicted);
  write_file_atomically(in_run("predicted.trace.json"), trace.str());
  return {.kinds = compare_kinds(program, predicted, measured),
          .predicted_step = predicted.step_seconds,
          .measured_step = metrics.step_seconds,
          .predicted_peak = peak_bytes(program).gpu,
          .measured_peak = metrics.peak_bytes,
          .num_steps = metrics.num_steps};
}

nlohmann::ordered_json comparison_json(const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["step_seconds"] = {{"predicted", comparison.predicted_step},
                          {"measured", comparison.measured_step},
                          {"relative_error", comparison.step_error()},
                          {"measured_steps", comparison.num_steps}};
  json["device_peak_bytes"] = {{"predicted", comparison.predicted_peak},
                               {"measured", comparison.measured_peak}};
  json["operations"] = nlohmann::ordered_json::array();
  for (const KindComparison& kind : comparison.kinds) {
    nlohmann::ordered_json entry = {{"kind", op_kind_name(kind.kind)},
                                    {"count", kind.count},
                                    {"predicted_seconds", kind.predicted},
                                    {"measured_seconds", kind.measured}};
    if (kind.predicted > 0) entry["ratio"] = kind.measured / kind.predicted;
    if (kind.predicted_issue > 0 || kind.measured_issue > 0) {
      entry["predicted_issue_seconds"] = kind.predicted_issue;
      entry["measured_issue_seconds"] = kind.measured_issue;
    }
    json["operations"].push_back(std::move(entry));
  }
  return json;
}

std::string comparison_text(const Comparison& comparison) {
  std::string text = fmt::format("{:<12} {:>6} {:>12} {:>12} {:>20}\n", "operation", "count",
                                 "predicted", "measured", "measured/predicted");
  for (const KindComparison& kind : comparison.kinds) {
    text += kind_row(kind, kind.predicted, kind.measured);
  }
  text += issue_text(comparison);
  text += fmt::format("\n{:<12} predicted {}, measured {} (median of {}): {:.1f} % off\n", "step",
                      format_seconds(comparison.predicted_step),
                      format_seconds(comparison.measured_step), comparison.num_steps,
                      100 * comparison.step_error());
  const bool equal = comparison.predicted_peak == comparison.measured_peak;
  text += fmt::format("{:<12} predicted {} B, measured {} B: {}\n", "device peak",
                      comparison.predicted_peak, comparison.measured_peak,
                      equal ? "equal" : "different");
  return text;
}

}  // namespace athanor::cli
