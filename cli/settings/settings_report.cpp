// SPDX-License-Identifier: Apache-2.0
#include "cli/settings/settings_report.hpp"

#include "sim/model/memory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace athanor::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Origin& origin) {
  return {{"key", origin.key}, {"line", origin.line > 0 ? Json(origin.line) : Json(nullptr)}};
}

Json json_of(const SettingChange& change) {
  Json keys = Json::array();
  for (const Origin& key : change.keys) keys.push_back(json_of(key));
  return {{"choice", change.name},         {"keys", std::move(keys)},   {"theirs", change.theirs},
          {"tuned", change.tuned},         {"seconds", change.seconds}, {"gpu_bytes", change.gpu},
          {"node_host_bytes", change.host}};
}

std::string with_sign(double value, const std::string& text) {
  return value == 0 ? "-" : (value < 0 ? "-" : "+") + text;
}

std::string seconds_text(Seconds seconds) {
  return with_sign(seconds, format_seconds(std::abs(seconds)));
}

std::string bytes_text(Bytes bytes) {
  return with_sign(static_cast<double>(bytes), format_bytes(std::abs(bytes)));
}

/// Returns the keys of a change, or what it is about where the system has none.
std::string keys_text(const SettingChange& change, const std::string& system) {
  if (change.keys.empty()) return fmt::format("{}: {} has no key", change.name, system);
  std::vector<std::string> keys;
  for (const Origin& key : change.keys) keys.push_back(text_of(key));
  return fmt::format("{}", fmt::join(keys, ", "));
}

using Row = std::array<std::string, 6>;

/// Returns rows whose first three columns are as wide as their longest text.
std::string table_text(const std::vector<Row>& rows) {
  std::array<std::size_t, 3> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>9}  {:>9}  {:>9}\n", row[0], widths[0], row[1],
                        widths[1], row[2], widths[2], row[3], row[4], row[5]);
  }
  return text;
}

std::string changes_text(const SettingsReport& report) {
  std::vector<Row> rows{{"what would change", "theirs", "tune's", "step", "gpu", "host"}};
  SettingChange all;
  for (const SettingChange& change : report.changes) {
    rows.push_back({keys_text(change, report.settings.system), change.theirs, change.tuned,
                    seconds_text(change.seconds), bytes_text(change.gpu), bytes_text(change.host)});
    all.seconds += change.seconds;
    all.gpu += change.gpu;
    all.host += change.host;
  }
  rows.push_back({"all of them", "", "", seconds_text(all.seconds), bytes_text(all.gpu),
                  bytes_text(all.host)});
  return table_text(rows) +
         "one after the other, what alone gains most first; host: all ranks of a node\n";
}

std::string tuned_text(const SettingsReport& report) {
  if (!report.tuned) return fmt::format("tune         {}\n", report.no_plan);
  const Report& tuned = *report.tuned;
  if (!is_better(tuned, report.theirs)) {
    return fmt::format("tune         finds no faster plan: its best takes {}\n",
                       format_seconds(tuned.step_seconds));
  }
  return fmt::format(
      "what tune finds for the same batch and clipping: {:.3g} times as fast\n{}\n{}",
      report.theirs.step_seconds / tuned.step_seconds, report_text(tuned), changes_text(report));
}

}  // namespace

bool is_better(const Report& tuned, const Report& theirs) {
  return tuned.step_seconds < theirs.step_seconds || !theirs.feasible;
}

nlohmann::ordered_json settings_json(const SettingsReport& report) {
  Json json = report_json(report.theirs);
  const PeerSettings& settings = report.settings;
  json["settings"] = {
      {"system", settings.system},       {"file", settings.file},
      {"gpus", settings.num_gpus.value}, {"global_batch", settings.global_batch.value},
      {"notes", settings.notes},         {"would_fit", report.fitting}};
  json["tuned"] = report.tuned ? report_json(*report.tuned) : Json(nullptr);
  json["changes"] = Json::array();
  for (const SettingChange& change : report.changes) json["changes"].push_back(json_of(change));
  return json;
}

std::string settings_text(const SettingsReport& report) {
  const PeerSettings& settings = report.settings;
  return fmt::format("settings     {} of {}: {} GPUs, {} sequences a step\n{}\n{}", settings.file,
                     settings.system, settings.num_gpus.value, settings.global_batch.value,
                     report_text(report.theirs), tuned_text(report));
}

}  // namespace athanor::cli
