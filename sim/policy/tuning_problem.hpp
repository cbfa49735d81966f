// SPDX-License-Identifier: Apache-2.0
// TuningProblem: everything that a plan depends on, checked once.
#pragma once

#include "sim/model/memory.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"

namespace athanor {

/// One model on one machine, the user's request, and what follows from the three. Profile and
/// platform outlive it.
struct TuningProblem {
  const Profile& profile;
  const Platform& platform;
  PlanRequest request;
  MemoryLimits limits;     ///< in force: effective_limits() of the request
  int ranks_per_node = 1;  ///< ranks of a node with the request's GPUs

  /// Returns this problem on `other`, a machine with the same devices and memory.
  [[nodiscard]] TuningProblem on(const Platform& other) const {
    return {profile, other, request, limits, ranks_per_node};
  }
};

/// Returns the problem of `request`. Throws InputError as validate_request() does.
[[nodiscard]] TuningProblem tuning_problem(const Profile& profile, const Platform& platform,
                                           const PlanRequest& request);

}  // namespace athanor
