// SPDX-License-Identifier: Apache-2.0
// Prints what settings of another system take, and what tune would change.
#pragma once

#include "cli/settings/setting_changes.hpp"
#include "cli/sim/report.hpp"
#include "sim/settings/peer_settings.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

struct SettingsReport {
  PeerSettings settings;  ///< settled
  Report theirs;
  std::optional<Report> tuned;         ///< absent: no plan fits, for the reason below
  std::string no_plan;                 ///< empty where there is a plan
  std::vector<SettingChange> changes;  ///< empty where tune finds nothing faster
  std::vector<std::string> fitting;    ///< changes with which settings that do not fit would
};

/// Returns whether the tuned plan is worth a change: it is faster, or theirs does not fit.
[[nodiscard]] bool is_better(const Report& tuned, const Report& theirs);

/// Returns report_json of their plan, with "settings" (system, file, gpus, keys, notes,
/// would_fit), "tuned" (report_json, or null) and "changes".
[[nodiscard]] nlohmann::ordered_json settings_json(const SettingsReport& report);

[[nodiscard]] std::string settings_text(const SettingsReport& report);

}  // namespace athanor::cli
