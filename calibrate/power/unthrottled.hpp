// SPDX-License-Identifier: Apache-2.0
// Times at full clock and power, from one set of costs into another.
#pragma once

#include "sim/model/profile.hpp"

#include <vector>

namespace athanor {

/// Gives every phase of `cost` the time at full clock and the power of the same phase in `paused`,
/// if it has them; at most the sustained time.
void measure_unthrottled(UnitCost& cost, const UnitCost& paused);

/// Costs without them take the power and the proportion of the two times of the largest micro-batch
/// of their class that has them.
void complete_full_clock(std::vector<UnitCost>& costs);

}  // namespace athanor
