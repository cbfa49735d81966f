// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/compare_run.hpp"

#include "cli/rates/rate_table.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/cost/costs.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/measured_rates.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/memory.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
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

/// Returns the host's seconds to issue operations of each kind in a step on rank 0: means over the
/// steady_steps().
std::map<KindOnLane, Seconds> issue_by_kind(const Program& program, const Timeline& timeline) {
  const std::set<std::int32_t> steps = steady_steps(timeline);
  std::map<KindOnLane, Seconds> totals;
  for (const Interval& interval : timeline.intervals) {
    if (interval.rank != 0 || !steps.contains(interval.step)) continue;
    const Operation& op = program.operations[static_cast<std::size_t>(interval.operation)];
    totals[{op.kind, op.lane}] +=
        (interval.issue_end - interval.issue_start) / static_cast<double>(steps.size());
  }
  return totals;
}

std::vector<KindComparison> compare_kinds(const Program& program, const Timeline& predicted,
                                          const Timeline& measured) {
  const auto of = [](const std::map<KindOnLane, Seconds>& totals, KindOnLane key) {
    const auto found = totals.find(key);
    return found == totals.end() ? 0.0 : found->second;
  };
  std::map<KindOnLane, std::int64_t> counts;
  for (const Operation& op : program.operations) ++counts[{op.kind, op.lane}];
  const auto predicted_seconds = seconds_by_kind(program, predicted);
  const auto measured_seconds = seconds_by_kind(program, measured);
  const auto predicted_issue = issue_by_kind(program, predicted);
  const auto measured_issue = issue_by_kind(program, measured);
  std::vector<KindComparison> kinds;
  for (const auto& [key, count] : counts) {
    kinds.push_back({.kind = key.first,
                     .lane = key.second,
                     .count = count,
                     .predicted = of(predicted_seconds, key),
                     .measured = of(measured_seconds, key),
                     .predicted_issue = of(predicted_issue, key),
                     .measured_issue = of(measured_issue, key)});
  }
  return kinds;
}

std::string ratio_text(double numerator, double denominator) {
  return denominator > 0 ? fmt::format("{:.2f}", numerator / denominator) : std::string("-");
}

/// Returns one row of the table, without an end of line.
std::string kind_row(const KindComparison& kind, Seconds predicted, Seconds measured) {
  return fmt::format("{:<12} {:<10} {:>6} {:>12} {:>12}", op_kind_name(kind.kind),
                     lane_name(kind.lane), kind.count, format_seconds(predicted),
                     format_seconds(measured));
}

/// Returns a way out if the host's own operations differ from their prediction, as they do on
/// shared hosts; else empty.
std::string host_text(const Comparison& comparison) {
  constexpr double kNoise = 0.1;
  Seconds predicted = 0, measured = 0;
  for (const KindComparison& kind : comparison.kinds) {
    if (!is_host_lane(kind.lane)) continue;
    predicted += kind.predicted;
    measured += kind.measured;
  }
  if (!comparison.on_gpus || std::abs(measured - predicted) <= kNoise * predicted) return "";
  return fmt::format(
      "\nthe host took {} times as long as predicted for updates and files: where others share it, "
      "it changes;\nathanor calibrate --refresh measures it again, in seconds\n",
      ratio_text(measured, predicted));
}

struct TierName {
  const char *key, *name;
  Bytes TierBytes::* bytes;
};
constexpr std::array kTierRows{TierName{"gpu", "device peak", &TierBytes::gpu},
                               TierName{"pinned", "pinned", &TierBytes::pinned},
                               TierName{"host", "host", &TierBytes::host},
                               TierName{"nvme", "nvme", &TierBytes::nvme}};

/// Returns one line about a tier. It is empty if neither side uses the tier.
std::string tier_row(const TierName& tier, const TierBytes& predicted, const TierBytes& measured) {
  const Bytes expected = predicted.*tier.bytes;
  const Bytes taken = measured.*tier.bytes;
  if (expected == 0 && taken == 0) return "";
  return fmt::format("{:<12} predicted {} B, measured {} B: {}\n", tier.name, expected, taken,
                     expected == taken ? "equal" : "different");
}

/// Returns the table of issue times, which is empty if nothing is issued. It shows no ratios: while
/// a GPU is busy, the host waits in a launch for room in its queue.
std::string issue_text(const Comparison& comparison) {
  std::string text;
  for (const KindComparison& kind : comparison.kinds) {
    if (kind.predicted_issue <= 0 && kind.measured_issue <= 0) continue;
    text += kind_row(kind, kind.predicted_issue, kind.measured_issue) + "\n";
  }
  if (text.empty()) return text;
  return "\nissued by the host; where it is ahead of the GPU, it waits for room to issue more\n" +
         text;
}

/// Returns a line for each other prediction of the step.
std::string again_text(const Comparison& comparison) {
  const auto line = [&](const char* how, Seconds seconds) {
    return fmt::format("{:<12} predicted {} {}: {:.1f} % off\n", "", how, format_seconds(seconds),
                       100 * comparison.error_of(seconds));
  };
  std::string text;
  if (comparison.repredicted_step) {
    text += line("again by the run, from its first steps,", *comparison.repredicted_step);
  }
  text += line("with the rates of the run itself", comparison.predicted_step_with_rates);
  text += line("with these and the calibration's, by their spreads,",
               comparison.predicted_step_combined);
  return text;
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

double Comparison::error_of(Seconds seconds) const noexcept {
  return measured_step > 0 ? std::abs(seconds - measured_step) / measured_step : 0;
}

double Comparison::step_error() const noexcept { return error_of(predicted_step); }

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
  double peak = 0;
  for (const MetricsLine& line : lines) {
    seconds.push_back(number_of(line.values, kStepSecondsKey, line.where));
    peak = std::max(peak, number_of(line.values, kPeakKey, line.where));
  }
  if (seconds.size() > kWarmUpSteps) seconds.erase(seconds.begin(), seconds.begin() + kWarmUpSteps);
  std::ranges::sort(seconds);
  constexpr double kMiddle = 0.5;
  constexpr double kDecile = 0.1;
  return {.step_seconds = quantile(seconds, kMiddle),
          .low_seconds = quantile(seconds, kDecile),
          .high_seconds = quantile(seconds, 1 - kDecile),
          .peak_bytes = static_cast<Bytes>(peak),
          .num_steps = std::ssize(seconds)};
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

Comparison compare_timelines(const RunData& run, const Timeline& predicted, Engine& engine) {
  const MeasuredRates measured =
      measure_rates(run.program, run.measured, issue_seconds(run.program, run.platform));
  const CombinedRates rates =
      combine_rates(run.program, measure_rates(run.program, predicted), measured,
                    repetition_spreads(run.program, run.profile, run.plan, run.platform));
  const auto step_with = [&](const WantedRates& wanted_rates) {
    return simulate_with_rates(engine, run.program, predicted, wanted_rates).step_seconds;
  };
  TierBytes measured_peak = run.measured.peak_bytes;
  measured_peak.gpu = run.metrics.peak_bytes;
  return {.kinds = compare_kinds(run.program, predicted, run.measured),
          .predicted_step = predicted.step_seconds,
          .measured_step = run.metrics.step_seconds,
          .predicted_step_with_rates = step_with(wanted(measured)),
          .predicted_step_combined = step_with(wanted(rates)),
          .repredicted_step = run.repredicted_step,
          .rates = rates,
          .changes = run.changes,
          .low_step = run.metrics.low_seconds,
          .high_step = run.metrics.high_seconds,
          .num_steps = run.metrics.num_steps,
          .predicted_peak = peak_bytes(run.program),
          .measured_peak = measured_peak,
          .on_gpus = run.platform.backend == "cuda"};
}

Comparison compare_run(const std::string& run) {
  const RunData data = read_run(run);
  Engine engine(data.platform, data.plan.world_size);
  const Timeline predicted = engine.simulate(data.program);
  const Comparison comparison = compare_timelines(data, predicted, engine);
  std::ostringstream trace;
  write_trace(trace, data.program, predicted);
  write_file_atomically((std::filesystem::path(run) / "predicted.trace.json").string(),
                        trace.str());
  return comparison;
}

nlohmann::ordered_json comparison_json(const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["step_seconds"] = {{"predicted", comparison.predicted_step},
                          {"measured", comparison.measured_step},
                          {"measured_low", comparison.low_step},
                          {"measured_high", comparison.high_step},
                          {"relative_error", comparison.step_error()},
                          {"measured_steps", comparison.num_steps},
                          {"predicted_with_measured_rates", comparison.predicted_step_with_rates},
                          {"predicted_with_combined_rates", comparison.predicted_step_combined}};
  if (comparison.repredicted_step) {
    json["step_seconds"]["repredicted"] = *comparison.repredicted_step;
    json["step_seconds"]["repredicted_relative_error"] =
        comparison.error_of(*comparison.repredicted_step);
  }
  if (!comparison.changes.empty()) json["changed_plan"] = to_json(comparison.changes);
  json["device_peak_bytes"] = {{"predicted", comparison.predicted_peak.gpu},
                               {"measured", comparison.measured_peak.gpu}};
  json["peak_bytes"] = nlohmann::ordered_json::object();
  for (const TierName& tier : kTierRows) {
    json["peak_bytes"][tier.key] = {{"predicted", comparison.predicted_peak.*tier.bytes},
                                    {"measured", comparison.measured_peak.*tier.bytes}};
  }
  json["operations"] = nlohmann::ordered_json::array();
  for (const KindComparison& kind : comparison.kinds) {
    nlohmann::ordered_json entry = {{"kind", op_kind_name(kind.kind)},
                                    {"lane", lane_name(kind.lane)},
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
  json["rates"] = rates_json(comparison.rates);
  return json;
}

std::string comparison_text(const Comparison& comparison) {
  std::string text = fmt::format("{:<12} {:<10} {:>6} {:>12} {:>12} {:>20}\n", "operation", "lane",
                                 "count", "predicted", "measured", "measured/predicted");
  for (const KindComparison& kind : comparison.kinds) {
    text += fmt::format("{} {:>20}\n", kind_row(kind, kind.predicted, kind.measured),
                        ratio_text(kind.measured, kind.predicted));
  }
  text += issue_text(comparison);
  text += "\n" + rates_text(comparison.rates);
  text += fmt::format(
      "\n{:<12} predicted {}, measured {} (median of {}; eight in ten from {} to {}): {:.1f} % "
      "off\n",
      "step", format_seconds(comparison.predicted_step), format_seconds(comparison.measured_step),
      comparison.num_steps, format_seconds(comparison.low_step),
      format_seconds(comparison.high_step), 100 * comparison.step_error());
  text += again_text(comparison);
  for (const PlanChange& change : comparison.changes) {
    text += fmt::format("{:<12} changed {}\n", "plan", text_of(change));
  }
  for (const TierName& tier : kTierRows) {
    text += tier_row(tier, comparison.predicted_peak, comparison.measured_peak);
  }
  return text + host_text(comparison);
}

}  // namespace athanor::cli
