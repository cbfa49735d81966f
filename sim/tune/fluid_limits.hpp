// SPDX-License-Identifier: Apache-2.0
// How much work lanes that slow each other down can do together.
#pragma once

#include "sim/model/interference.hpp"
#include "sim/model/quantities.hpp"

#include <array>
#include <vector>

namespace athanor {

using LaneSeconds = std::array<Seconds, kNumLanes>;

/// Weights w with which no set of running lanes does more than one weighted second of work in a
/// second: sum over running lanes of w / slowdown <= 1. Whatever the order of operations, a step
/// with `busy` seconds of work on each lane takes at least the scalar product of w and `busy`. For
/// any three lanes these are the vertices of the dual of the linear program that divides a step's
/// time between sets of lanes, so that for three lanes the largest product is that program's
/// optimum.
[[nodiscard]] std::vector<LaneSeconds> fluid_limits(const Interference& interference);

}  // namespace athanor
