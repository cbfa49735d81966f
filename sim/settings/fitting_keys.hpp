// SPDX-License-Identifier: Apache-2.0
// Changes of settings that do not fit memory, each in the words of their own system.
#pragma once

#include "sim/policy/tuning_problem.hpp"
#include "sim/settings/peer_settings.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Returns the single changes with which settings that do not fit would, such as
/// "zero_optimization.offload_optimizer.device cpu". Where no single one does, returns all
/// changes that take less memory as one line, if together they fit.
[[nodiscard]] std::vector<std::string> fitting_keys(const PeerSettings& settings,
                                                    const TuningProblem& problem);

}  // namespace athanor
