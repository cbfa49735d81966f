// SPDX-License-Identifier: Apache-2.0
// Errors where no plan fits: the missing memory, and the nearest changes that are known to fit.
#pragma once

#include "sim/base/errors.hpp"
#include "sim/policy/tuning_problem.hpp"

#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Returns what to throw when none of the plans whose peaks are `peaks` fits: the one that comes
/// closest (tier, need, limit), then the changes that fit. `peaks` must not be empty.
[[nodiscard]] InfeasibleError no_plan_fits(std::span<const TierBytes> peaks,
                                           const TuningProblem& problem);

/// Returns what to throw when `plan`, whose peak is `peak`, does not fit. It proposes other limits,
/// and changes of the plan's own micro-batch and activations.
[[nodiscard]] InfeasibleError plan_does_not_fit(const Plan& plan, const TierBytes& peak,
                                                const TuningProblem& problem);

/// "1234MiB": `bytes` rounded up to what an option can say without falling short.
[[nodiscard]] std::string option_size(Bytes bytes);

}  // namespace athanor
