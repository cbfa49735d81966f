// SPDX-License-Identifier: Apache-2.0
// Errors where no plan fits: the missing memory, and the nearest changes that are known to fit.
#pragma once

#include "sim/base/errors.hpp"
#include "sim/policy/tuning_problem.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Says which of some plans that do not fit comes closest, and what they would need.
class ClosestPlans {
 public:
  /// `problem` outlives this object.
  explicit ClosestPlans(const TuningProblem& problem) : problem_(problem) {}

  /// Adds a plan whose peak is `peak`.
  void add(const TierBytes& peak);
  [[nodiscard]] std::int64_t num_plans() const noexcept { return num_plans_; }
  /// The peak of the plan that exceeds the limits by the fewest bytes. There must be a plan.
  [[nodiscard]] const TierBytes& closest() const noexcept { return closest_; }
  /// Options that raise the limits just enough for one of the plans.
  [[nodiscard]] std::vector<std::string> memory_changes() const;

 private:
  const TuningProblem& problem_;
  TierBytes closest_;
  std::int64_t num_plans_ = 0;
  /// The smallest limit of each tier with which one of the plans fits the other limits.
  std::optional<Bytes> gpu_, host_, nvme_;
};

/// Returns what to throw when none of the plans of a space fits: the one that comes closest (tier,
/// need, limit), then the changes that fit.
[[nodiscard]] InfeasibleError no_plan_fits(const ClosestPlans& plans, const TuningProblem& problem);

/// Returns what to throw when `plan`, whose peak is `peak`, does not fit. It proposes other limits,
/// and changes of the plan's own micro-batch and activations.
[[nodiscard]] InfeasibleError plan_does_not_fit(const Plan& plan, const TierBytes& peak,
                                                const TuningProblem& problem);

/// "1234MiB": `bytes` rounded up to what an option can say without falling short.
[[nodiscard]] std::string option_size(Bytes bytes);

}  // namespace athanor
