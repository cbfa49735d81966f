// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/tuning_problem.hpp"

namespace athanor {

TuningProblem tuning_problem(const Profile& profile, const Platform& platform,
                             const PlanRequest& request) {
  validate_request(request, profile, platform);
  return {profile, platform, request, effective_limits(request, platform),
          platform.ranks_per_node(request.num_gpus)};
}

}  // namespace athanor
