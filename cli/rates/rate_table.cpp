// SPDX-License-Identifier: Apache-2.0
#include "cli/rates/rate_table.hpp"

#include "sim/base/quantities.hpp"
#include "sim/model/program.hpp"
#include "sim/rates/measure_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Whether a rate counts elements; others with an amount count bytes.
bool counts_elements(OpKind kind) {
  return kind == OpKind::Adam || kind == OpKind::AdamRollback || kind == OpKind::SquareSum ||
         kind == OpKind::GradAdd;
}

const char* unit_of(const CombinedRate& rate) {
  if (rate.amount <= 0) return "operations";
  return counts_elements(rate.key.kind) ? "elements" : "bytes";
}

/// Bytes, elements or operations of a step.
double work_of(const CombinedRate& rate) {
  return rate.amount > 0 ? rate.amount : static_cast<double>(rate.count);
}

/// Formats "24.1 GB/s", "4.3 G elements/s" or "12.1 ms each".
std::string rate_text(const CombinedRate& rate, Seconds seconds) {
  constexpr double kGiga = 1e9;
  if (rate.amount <= 0) {
    return format_seconds(seconds / static_cast<double>(rate.count)) + " each";
  }
  return fmt::format("{:.3g} G{}/s", rate.amount / seconds / kGiga,
                     counts_elements(rate.key.kind) ? " elements" : "B");
}

Json rate_json(const CombinedRate& rate) {
  Json json{{"kind", op_kind_name(rate.key.kind)}, {"lane", lane_name(rate.key.lane)}};
  if (!rate.key.unit_class.empty()) json["unit_class"] = rate.key.unit_class;
  if (rate.key.variant) json["variant"] = true;
  json.update({{"count", rate.count},
               {"unit", unit_of(rate)},
               {"predicted_per_second", work_of(rate) / rate.predicted},
               {"measured_per_second", work_of(rate) / rate.measured},
               {"combined_per_second", work_of(rate) / rate.combined},
               {"predicted_seconds", rate.predicted},
               {"measured_seconds", rate.measured},
               {"combined_seconds", rate.combined},
               {"ratio", rate.measured / rate.predicted},
               {"calibrated_spread", rate.calibrated_spread},
               {"measured_spread", rate.measured_spread},
               {"weight", rate.weight}});
  return json;
}

Json launches_json(const CombinedLaunches& launches) {
  return {{"kind", "launch"},
          {"lane", "host"},
          {"count", launches.count},
          {"unit", "operations"},
          {"predicted_per_second", static_cast<double>(launches.count) / launches.calibrated},
          {"measured_per_second", static_cast<double>(launches.count) / launches.measured},
          {"combined_per_second", static_cast<double>(launches.count) / launches.combined},
          {"predicted_seconds", launches.calibrated},
          {"measured_seconds", launches.measured},
          {"combined_seconds", launches.combined},
          {"ratio", launches.measured / launches.calibrated},
          {"calibrated_spread", launches.calibrated_spread},
          {"measured_spread", launches.measured_spread},
          {"weight", launches.weight}};
}

struct Row {
  Seconds change = 0;
  std::string text;
};

Row row_of(const std::string& name, const char* lane, std::int64_t count,
           const std::string& predicted, const std::string& measured, Seconds before, Seconds after,
           double calibrated_spread, double measured_spread, double weight) {
  constexpr double kPercent = 100;
  return {
      std::abs(after - before),
      fmt::format("{:<28} {:<10} {:>6} {:>19} {:>19} {:>7.3f} {:>7.1f} % {:>7.1f} % {:>6.0f} %\n",
                  name, lane, count, predicted, measured, after / before,
                  kPercent * calibrated_spread, kPercent * measured_spread, kPercent * weight)};
}

}  // namespace

Json rates_json(const CombinedRates& combined) {
  Json list = Json::array();
  for (const CombinedRate& rate : combined.rates) list.push_back(rate_json(rate));
  if (combined.launches) list.push_back(launches_json(*combined.launches));
  return list;
}

std::string rates_text(const CombinedRates& combined) {
  std::vector<Row> rows;
  for (const CombinedRate& rate : combined.rates) {
    rows.push_back(row_of(rate_name(rate.key), lane_name(rate.key.lane), rate.count,
                          rate_text(rate, rate.predicted), rate_text(rate, rate.measured),
                          rate.predicted, rate.measured, rate.calibrated_spread,
                          rate.measured_spread, rate.weight));
  }
  if (const auto& launches = combined.launches) {
    const auto each = [&](Seconds seconds) {
      return format_seconds(seconds / static_cast<double>(launches->count)) + " each";
    };
    rows.push_back(row_of("launch", "host", launches->count, each(launches->calibrated),
                          each(launches->measured), launches->calibrated, launches->measured,
                          launches->calibrated_spread, launches->measured_spread,
                          launches->weight));
  }
  if (rows.empty()) return "";
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(-row.change, row.text); });
  std::string text =
      fmt::format("{:<28} {:<10} {:>6} {:>19} {:>19} {:>7} {:>9} {:>9} {:>8}\n", "rate of", "lane",
                  "count", "predicted", "measured", "time", "+- before", "+- run", "weight");
  for (const Row& row : rows) text += row.text;
  return text;
}

}  // namespace athanor::cli
