// SPDX-License-Identifier: Apache-2.0
#include "cli/compare/comparison_report.hpp"

#include "cli/rates/rate_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace athanor::cli {
namespace {

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

/// Returns a line about the slowest rank, or nothing where its kernels take as long as those of
/// the fastest, but for what two measurements of one GPU differ.
std::string ranks_text(const Comparison& comparison) {
  constexpr double kNoise = 0.03;
  const auto [least, most] = std::ranges::minmax_element(comparison.phase_seconds_by_rank);
  if (least == comparison.phase_seconds_by_rank.end() || *most <= (1 + kNoise) * *least) return "";
  const auto rank_of = [&](auto place) { return place - comparison.phase_seconds_by_rank.begin(); };
  return fmt::format(
      "\nforward and backward took {} times as long on rank {} as on rank {}: all ranks wait for "
      "the slowest;\nGPUs of a kind differ under their power limits, and so does what else runs "
      "on them\n",
      ratio_text(*most, *least), rank_of(most), rank_of(least));
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

}  // namespace

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
  if (comparison.clipped) json["clipping"] = to_json(*comparison.clipped);
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
  json["phase_seconds_by_rank"] = comparison.phase_seconds_by_rank;
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
  if (comparison.clipped) text += text_of(*comparison.clipped);
  for (const TierName& tier : kTierRows) {
    text += tier_row(tier, comparison.predicted_peak, comparison.measured_peak);
  }
  return text + ranks_text(comparison) + host_text(comparison);
}

}  // namespace athanor::cli
