// SPDX-License-Identifier: Apache-2.0
// What holds for every pattern under which each rank owns a part of a unit.
#pragma once

#include "sim/model/plan.hpp"

#include <string>

namespace athanor {

/// Throws InputError that names what does not go with `pattern`, with `hint` and the way back to
/// weights. `where` is the unit's pattern.
[[noreturn]] void refuse(const UnitPattern& pattern, const std::string& where,
                         const std::string& problem, const std::string& hint);

/// Refuses a sharded unit, micro-batch groups and snapshots, which go with no owned parts. `stays`
/// says what stays on the GPU of its rank.
void require_room_for_owned_parts(const UnitPattern& pattern, const Plan& plan,
                                  const UnitPlan& unit_plan, const std::string& where,
                                  const std::string& stays);

}  // namespace athanor
