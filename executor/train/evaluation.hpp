// SPDX-License-Identifier: Apache-2.0
// Evaluates the model on held-out data between two steps of training.
#pragma once

#include "executor/train/rank_lanes.hpp"
#include "sim/model/profile.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace athanor {

struct Evaluation {
  double loss = 0;  ///< mean over all targets
  std::int64_t num_targets = 0;
  Seconds seconds = 0;
};

/// What an evaluation borrows from training, whose lanes must be idle.
struct EvaluationSite {
  const RankContext& training;
  const Profile& profile;
  std::vector<UnitRunner>& runners;  ///< [unit]
  Backend& backend;
  std::atomic<bool>& cancelled;
  Seconds deadline = 0;
};

/// Goes once through the samples of `source`, a global batch of the plan a step (lower_evaluation).
/// Every rank calls it. Returns nothing on all ranks where one of them was asked to stop. Throws
/// Error where a rank fails or the loss is not finite.
[[nodiscard]] std::optional<Evaluation> evaluate(const EvaluationSite& site,
                                                 const EvaluationSource& source);

}  // namespace athanor
