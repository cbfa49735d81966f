// SPDX-License-Identifier: Apache-2.0
// The changes of a run's plan, as its run.json tells them.
#pragma once

#include "sim/base/quantities.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::cli {

struct PlanChange {
  std::int64_t after_step = 0;
  Seconds before = 0, after = 0;  ///< predicted steps, both with the run's rates
  std::vector<std::string> changes, moved_rates;
  bool operator==(const PlanChange&) const = default;
};

/// Returns the changes of all starts in `record`, a run.json, the oldest first. Starts that went on
/// under a plan that was changed before count once. Throws InputError that names `where`.
[[nodiscard]] std::vector<PlanChange> plan_changes(const nlohmann::json& record,
                                                   const std::string& where);

[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<PlanChange>& changes);

/// Returns "after step 12: adam on cpu-adam takes 3.2 times as long as predicted; a step is
/// predicted to take 2.1 s instead of 3.4 s (sharding: replicated -> sharded)".
[[nodiscard]] std::string text_of(const PlanChange& change);

}  // namespace athanor::cli
