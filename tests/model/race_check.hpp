// SPDX-License-Identifier: Apache-2.0
// Finds data races in a program: two operations that touch the same memory, one of them writing,
// without an order between them that waits and lanes enforce.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor::test {

/// Replays three steps with vector clocks. Returns one sentence per race or per use of a slot that
/// does not hold the unit, at most ten.
[[nodiscard]] std::vector<std::string> find_races(const Program& program,
                                                  const Architecture& architecture,
                                                  const Plan& plan);

}  // namespace athanor::test
