// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/platform_table.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/name_table.hpp"
#include "sim/base/quantities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <tuple>

namespace athanor::cli {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kMillion = 1e6;

std::string file_name(const PlatformRow& row) {
  return std::filesystem::path(row.path).stem().string();
}

double parse_price(const std::string& text, const std::string& whole) {
  double price = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, price);
  if (status == std::errc{} && rest == end && std::isfinite(price) && price >= 0) return price;
  throw InputError("--price", fmt::format("\"{}\" has no price per hour", whole),
                   "Write a platform and what one node costs, such as h200x8=25.5.");
}

double number(const PlatformRow& row, const char* key) { return row.report.at(key).get<double>(); }

std::string interval_text(const PlatformRow& row) {
  if (!row.report.contains("step_seconds_low")) return "-";
  return fmt::format("{} - {}", format_seconds(number(row, "step_seconds_low")),
                     format_seconds(number(row, "step_seconds_high")));
}

std::string price_text(const PlatformRow& row) {
  const auto price = row.price_per_million_tokens();
  return fmt::format("{:>9}  ", price ? fmt::format("{:.3f}", *price) : "-");
}

std::string row_text(const PlatformRow& row, std::size_t width, bool with_prices) {
  const std::string start = fmt::format("{:<{}}  {:>4}  ", row.platform, width, row.gpus);
  if (row.outcome != PlatformOutcome::Planned) return start + row.reason + "\n";
  return start + fmt::format("{:>8}  {:<19}  {:>9.0f}  {:>4.0f} %  {:>9}  {}{}\n",
                             format_seconds(number(row, "step_seconds")), interval_text(row),
                             number(row, "tokens_per_second"),
                             100 * number(row, "model_flops_utilization"),
                             format_bytes(row.report.at("peak_bytes").at("gpu").get<Bytes>()),
                             with_prices ? price_text(row) : "",
                             row.report.at("plan_summary").get<std::string>());
}

/// Returns the meaning of the column "between"; empty if no profile was scaled.
std::string legend_text(const std::vector<PlatformRow>& rows) {
  const auto scaled = std::ranges::find_if(
      rows, [](const PlatformRow& row) { return row.report.contains("profile_device"); });
  if (scaled == rows.end()) return "";
  return fmt::format(
      "between: the profile of {} scaled by the ratio of matrix rates alone, and of memory alone\n",
      scaled->report.at("profile_device").get<std::string>());
}

constexpr NameTable<PlatformOutcome, 4> kPlatformOutcomeNames{
    {{"planned", PlatformOutcome::Planned},
     {"does-not-fit", PlatformOutcome::DoesNotFit},
     {"cannot-run", PlatformOutcome::CannotRun},
     {"failed", PlatformOutcome::Failed}}};

}  // namespace

std::optional<double> PlatformRow::price_per_million_tokens() const {
  if (!price || outcome != PlatformOutcome::Planned) return std::nullopt;
  return *price * nodes / kSecondsPerHour / report.at("tokens_per_second").get<double>() * kMillion;
}

void set_prices(const std::vector<std::string>& prices, std::vector<PlatformRow>& rows) {
  std::vector<std::string> names;
  for (const PlatformRow& row : rows) names.push_back(file_name(row));
  for (const std::string& text : prices) {
    const std::size_t equals = text.rfind('=');
    const std::string name = text.substr(0, equals);
    const double price =
        parse_price(equals == std::string::npos ? "" : text.substr(equals + 1), text);
    const auto is_named = [&](const PlatformRow& row) {
      return row.platform == name || row.path == name || file_name(row) == name;
    };
    const auto count = std::ranges::count_if(rows, is_named);
    if (count != 1) {
      throw InputError(
          "--price",
          fmt::format("{} platforms are called \"{}\"", count == 0 ? "no" : "several", name),
          fmt::format("Use one of {}, or the path of the file.", fmt::join(names, ", ")));
    }
    std::ranges::find_if(rows, is_named)->price = price;
  }
}

void sort_rows(std::vector<PlatformRow>& rows) {
  const auto key = [](const PlatformRow& row) {
    const bool planned = row.outcome == PlatformOutcome::Planned;
    return std::tuple(
        !planned, row.price_per_million_tokens().value_or(std::numeric_limits<double>::infinity()),
        planned ? -number(row, "tokens_per_second") : 0.0, row.path);
  };
  std::ranges::sort(rows, {}, key);
}

nlohmann::ordered_json row_json(const PlatformRow& row) {
  nlohmann::ordered_json json;
  json["platform"] = row.platform;
  json["platform_path"] = row.path;
  json["gpus"] = row.gpus;
  json["nodes"] = row.nodes;
  json["outcome"] = name_of(kPlatformOutcomeNames, row.outcome);
  if (row.outcome != PlatformOutcome::Planned) json["reason"] = row.reason;
  if (row.price) json["price_per_hour"] = *row.price;
  if (const auto price = row.price_per_million_tokens()) json["price_per_million_tokens"] = *price;
  if (row.outcome == PlatformOutcome::Planned) json.update(row.report);
  return json;
}

std::string table_text(const std::vector<PlatformRow>& rows) {
  std::size_t width = 0;
  for (const PlatformRow& row : rows) width = std::max(width, row.platform.size());
  const bool with_prices =
      std::ranges::any_of(rows, [](const PlatformRow& row) { return row.price.has_value(); });
  std::string text = fmt::format("{:<{}}  {:>4}  {:>8}  {:<19}  {:>9}  {:>6}  {:>9}  {}{}\n",
                                 "platform", width, "gpus", "step", "between", "tokens/s", "util",
                                 "gpu", with_prices ? " per Mtok  " : "", "plan");
  for (const PlatformRow& row : rows) text += row_text(row, width, with_prices);
  return text + legend_text(rows);
}

}  // namespace athanor::cli
