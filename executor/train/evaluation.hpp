// SPDX-License-Identifier: Apache-2.0
// Evaluates the model on held-out data between two steps of training.
#pragma once

#include "executor/job/step_report.hpp"
#include "executor/train/rank_lanes.hpp"
#include "sim/model/profile.hpp"

#include <atomic>
#include <optional>
#include <vector>

namespace athanor {

/// Parts of training that an evaluation borrows while training's lanes are idle.
struct EvaluationSite {
  const RankContext& training;
  const Profile& profile;
  std::vector<UnitRunner>& runners;  ///< [unit]
  Backend& backend;
  std::atomic<bool>& cancelled;
  Seconds deadline = 0;
  std::int64_t trained = 0;  ///< steps of training that are done
};

/// Goes once through the samples of `source`, a global batch of the plan a step (lower_evaluation).
/// Every rank calls it. Returns nothing on all ranks where one of them was asked to stop. Throws
/// Error where a rank fails or the loss is not finite.
[[nodiscard]] std::optional<EvaluationReport> evaluate(const EvaluationSite& site,
                                                       const EvaluationSource& source);

}  // namespace athanor
