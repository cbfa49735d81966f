// SPDX-License-Identifier: Apache-2.0
// Unthrottled times and power draw, from one set of costs into another.
#pragma once

#include "sim/model/profile.hpp"

#include <vector>

namespace athanor {

/// Gives every phase of `cost` the unthrottled time and the power of the same phase in `paused`, if
/// it has them. An unthrottled time is at most the sustained time.
void measure_unthrottled(UnitCost& cost, const UnitCost& paused);

/// Gives costs without unthrottled times those of the largest micro-batch of their class that has
/// them: its power, and its proportion of unthrottled to sustained time.
void complete_unthrottled(std::vector<UnitCost>& costs);

}  // namespace athanor
