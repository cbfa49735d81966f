// SPDX-License-Identifier: Apache-2.0
// Times at full clock and power, from one set of costs into another.
#pragma once

#include "sim/model/profile.hpp"

#include <vector>

namespace athanor {

/// Gives every phase of `costs` the time at full clock and the power of the same class and
/// micro-batch in `paused`; at most the sustained time. Where that has none, since the phase is too
/// long, the largest micro-batch that has gives its power and its proportion of the two times.
void take_full_clock(std::vector<UnitCost>& costs, const std::vector<UnitCost>& paused);

}  // namespace athanor
