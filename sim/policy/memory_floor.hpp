// SPDX-License-Identifier: Apache-2.0
// Bounds on memory that hold for every plan there can be, also for those that no search tries.
#pragma once

#include "sim/policy/tuning_problem.hpp"

#include <string>

namespace athanor {

/// Least memory of any plan for a problem. A search that finds no plan shows only that none of
/// those that it tries fits; where a floor is above a limit, none can be found at all.
///
/// A plan keeps one slot or the parameters, and one gradient buffer, of each class of units. At
/// each backward it has what the unit saved and the gradient of its output. Optimizer state,
/// parameters and gradients that wait are somewhere, each element on one rank at least.
struct MemoryFloor {
  Bytes gpu = 0;   ///< bytes of one GPU, if all state is elsewhere
  Bytes host = 0;  ///< bytes of a node, if GPUs and files hold as much as their limits allow
};

[[nodiscard]] MemoryFloor memory_floor(const TuningProblem& problem);

/// Returns a sentence that says which floor is above its limit, or that none is.
[[nodiscard]] std::string proof_text(const TuningProblem& problem);

}  // namespace athanor
