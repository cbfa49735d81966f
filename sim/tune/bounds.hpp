// SPDX-License-Identifier: Apache-2.0
// Cheap limits on a program's steady-state step time: lower bound <= simulated <= serial sum.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

namespace athanor {

/// The busiest lane or shared resource over one step, the host that issues it, and the longest
/// cycle through one step. Never above the simulated period.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform);

/// Every operation of one rank issued and run after the other, slowed by full contention between
/// ranks. Never
/// below the simulated period.
[[nodiscard]] Seconds serial_seconds(const Program& program, const Platform& platform);

}  // namespace athanor
