// SPDX-License-Identifier: Apache-2.0
// Finds data races in a program: two operations that touch the same memory, of which one writes,
// without an order that waits and lanes enforce.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor::test {

/// Replays three steps with vector clocks. Returns at most ten sentences, each on one race or on
/// one use of a slot that does not hold the unit.
[[nodiscard]] std::vector<std::string> find_races(const Program& program,
                                                  const Architecture& architecture,
                                                  const Plan& plan);

}  // namespace athanor::test
