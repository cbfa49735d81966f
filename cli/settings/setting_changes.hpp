// SPDX-License-Identifier: Apache-2.0
// The way from a user's plan to the tuned one, one choice at a time.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/settings/peer_settings.hpp"
#include "sim/settings/plan_parts.hpp"

#include <string>
#include <vector>

namespace athanor::cli {

/// One choice that changes, and what it changes on top of the changes before it.
struct SettingChange {
  std::vector<Origin> keys;  ///< keys of the settings; empty: their system has none
  std::string name;          ///< "optimizer state"
  std::string theirs, tuned;
  Seconds seconds = 0;      ///< added to the step
  Bytes gpu = 0, host = 0;  ///< added to the peaks of a GPU, and of a node's host memory
};

/// Returns the changes from `theirs` to `tuned`, plans for `problem`. Those come first that would
/// gain most alone, unless memory has no room for them yet. Their effects add up to the whole
/// difference. Changes that only go together are one.
[[nodiscard]] std::vector<SettingChange> setting_changes(const PeerSettings& settings,
                                                         const Plan& theirs, const Plan& tuned,
                                                         const TuningProblem& problem,
                                                         Engine& engine);

}  // namespace athanor::cli
