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
#include <map>
#include <set>
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
  return fmt::format("{} - {}", format_seconds(number(row, "step_seconds_p10")),
                     format_seconds(number(row, "step_seconds_p90")));
}

std::string price_text(const PlatformRow& row) {
  const auto price = row.price_per_million_tokens();
  return fmt::format("{:>9}  ", price ? fmt::format("{:.3f}", *price) : "-");
}

/// Whether some platform has several numbers of GPUs.
bool scales(const std::vector<PlatformRow>& rows) {
  return std::ranges::any_of(rows, [&](const PlatformRow& row) {
    return std::ranges::any_of(rows, [&](const PlatformRow& other) {
      return other.path == row.path && other.gpus != row.gpus;
    });
  });
}

std::string scaling_text(const PlatformRow& row) {
  return fmt::format("{:>8.2f}  {:>8.0f} %  ", row.speed_up.value_or(1),
                     100 * row.efficiency.value_or(1));
}

/// Columns that a table has only where they say something.
struct Columns {
  bool prices = false, scaling = false;
};

std::string row_text(const PlatformRow& row, std::size_t width, Columns columns) {
  const std::string start = fmt::format("{:<{}}  {:>4}  ", row.platform, width, row.gpus);
  if (row.outcome != PlatformOutcome::Planned) return start + row.reason + "\n";
  return start + fmt::format("{:>8}  {:<19}  {:>9.0f}  {:>4.0f} %  {:>9}  {}{}{}\n",
                             format_seconds(number(row, "step_seconds")), interval_text(row),
                             number(row, "tokens_per_second"),
                             100 * number(row, "model_flops_utilization"),
                             format_bytes(row.report.at("peak_bytes").at("gpu").get<Bytes>()),
                             columns.scaling ? scaling_text(row) : "",
                             columns.prices ? price_text(row) : "",
                             row.report.at("plan_summary").get<std::string>());
}

/// Returns what widens intervals, and which if not all; empty if nothing does.
std::string legend_text(const std::vector<PlatformRow>& rows) {
  std::map<std::string, std::vector<std::string>> platforms;  // by what widens their intervals
  std::size_t planned = 0;
  for (const PlatformRow& row : rows) {
    if (row.outcome != PlatformOutcome::Planned) continue;
    ++planned;
    const auto reasons = row.report.find("interval_widened_by");
    if (reasons == row.report.end()) continue;
    const auto texts = reasons->get<std::vector<std::string>>();
    platforms[fmt::format("{}", fmt::join(texts, ", "))].push_back(row.platform);
  }
  std::string text;
  for (const auto& [reasons, names] : platforms) {
    const std::string which =
        names.size() == planned ? "" : fmt::format(" ({})", fmt::join(names, "; "));
    text += fmt::format("wide intervals: {}{}\n", reasons, which);
  }
  return text;
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
  std::set<std::string> names;
  for (const PlatformRow& row : rows) names.insert(file_name(row));
  for (const std::string& text : prices) {
    const std::size_t equals = text.rfind('=');
    const std::string name = text.substr(0, equals);
    const double price =
        parse_price(equals == std::string::npos ? "" : text.substr(equals + 1), text);
    const auto is_named = [&](const PlatformRow& row) {
      return row.platform == name || row.path == name || file_name(row) == name;
    };
    // Rows of one platform differ in their number of GPUs.
    std::set<std::string> paths;
    std::multiset<int> gpus;
    for (const PlatformRow& row : rows) {
      if (!is_named(row)) continue;
      paths.insert(row.path);
      gpus.insert(row.gpus);
    }
    const bool is_one =
        paths.size() == 1 && gpus.size() == std::set(gpus.begin(), gpus.end()).size();
    if (!is_one) {
      throw InputError(
          "--price",
          fmt::format("{} platforms are called \"{}\"", paths.empty() ? "no" : "several", name),
          fmt::format("Use one of {}, or the path of the file.", fmt::join(names, ", ")));
    }
    for (PlatformRow& row : rows) {
      if (is_named(row)) row.price = price;
    }
  }
}

void set_scaling(std::vector<PlatformRow>& rows) {
  if (!scales(rows)) return;
  for (PlatformRow& row : rows) {
    if (row.outcome != PlatformOutcome::Planned) continue;
    const PlatformRow* fewest = &row;
    for (const PlatformRow& other : rows) {
      const bool is_fewer = other.path == row.path && other.gpus < fewest->gpus;
      if (is_fewer && other.outcome == PlatformOutcome::Planned) fewest = &other;
    }
    row.speed_up = number(row, "tokens_per_second") / number(*fewest, "tokens_per_second");
    row.efficiency = *row.speed_up * fewest->gpus / row.gpus;
  }
}

void sort_rows(std::vector<PlatformRow>& rows) {
  if (scales(rows)) {
    std::ranges::sort(rows, {},
                      [](const PlatformRow& row) { return std::tuple(row.path, row.gpus); });
    return;
  }
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
  if (row.speed_up) json["speed_up"] = *row.speed_up;
  if (row.efficiency) json["efficiency"] = *row.efficiency;
  if (row.outcome == PlatformOutcome::Planned) json.update(row.report);
  return json;
}

std::string table_text(const std::vector<PlatformRow>& rows) {
  std::size_t width = 0;
  for (const PlatformRow& row : rows) width = std::max(width, row.platform.size());
  const Columns columns{
      std::ranges::any_of(rows, [](const PlatformRow& row) { return row.price.has_value(); }),
      scales(rows)};
  std::string text = fmt::format("{:<{}}  {:>4}  {:>8}  {:<19}  {:>9}  {:>6}  {:>9}  {}{}{}\n",
                                 "platform", width, "gpus", "step", "8 of 10 runs", "tokens/s",
                                 "util", "gpu", columns.scaling ? "speed-up  efficiency  " : "",
                                 columns.prices ? " per Mtok  " : "", "plan");
  for (const PlatformRow& row : rows) text += row_text(row, width, columns);
  return text + legend_text(rows);
}

}  // namespace athanor::cli
