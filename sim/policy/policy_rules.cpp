// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/policy_rules.hpp"

namespace athanor::policy {

Plan start(const Input& in, std::int64_t chunk_elements, Sharding sharding, Placement placement) {
  Plan plan =
      uniform_plan(in.name, in.profile, in.request, in.batch, chunk_elements, sharding, placement);
  recompute_leading(plan, in.num_recompute);
  plan.cache_slots = kDoubleBuffer;
  plan.gradient_buffers = kDoubleBuffer;
  plan.schedule = kAfterBackward;
  return plan;
}

std::int64_t whole_units(const Input& in) { return largest_unit_elements(in.profile.architecture); }

}  // namespace athanor::policy
