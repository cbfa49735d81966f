// SPDX-License-Identifier: Apache-2.0
#include "sim/patterns/owned_parts.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

namespace athanor {

void refuse(const UnitPattern& pattern, const std::string& where, const std::string& problem,
            const std::string& hint) {
  throw InputError(where, fmt::format("\"{}\" does not go with {}", pattern.name(), problem),
                   hint + ", or set pattern to \"weights\".");
}

void require_room_for_owned_parts(const UnitPattern& pattern, const Plan& plan,
                                  const UnitPlan& unit_plan, const std::string& where,
                                  const std::string& stays) {
  if (unit_plan.sharding == Sharding::Sharded) {
    refuse(pattern, where, fmt::format("sharding \"sharded\": {}", stays),
           "Set sharding to \"replicated\" or \"optimizer-sharded\"");
  }
  if (plan.micro_batch_group > 1) {
    refuse(pattern, where, fmt::format("micro_batch_group {}", plan.micro_batch_group),
           "Set micro_batch_group to 1");
  }
  if (plan.snapshot != Snapshot::None) {
    refuse(pattern, where, "snapshots", "Set snapshot to \"none\"");
  }
}

}  // namespace athanor
