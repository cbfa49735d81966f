// SPDX-License-Identifier: Apache-2.0
// A prediction with the rates that a run measured: what is left of its error is the order of
// operations, waiting and issuing, not how long operations take.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/model/timeline.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace athanor {

using KindOnLane = std::pair<OpKind, Lane>;

/// Returns the steps that tell how fast a machine is: all but the first, which starts from an idle
/// machine, unless it is the only one.
[[nodiscard]] std::set<std::int32_t> steady_steps(const Timeline& timeline);

/// Returns the seconds that operations of each kind take in a step on the slowest rank: means over
/// its steady_steps(). Ranks that come to a collective early wait there. So a collective takes as
/// long as on the rank that comes last.
[[nodiscard]] std::map<KindOnLane, Seconds> seconds_by_kind(const Program& program,
                                                            const Timeline& timeline);

/// Simulates `program`, whose simulation gave `predicted`, with each kind of operation as slow as
/// `measured` shows it. A factor scales
/// the kind's cost alone, beside whatever disturbs it. It is found in at most five rounds, which
/// end once every kind is within 0.5 %. Kinds that one timeline lacks keep their rates.
[[nodiscard]] Timeline simulate_with_measured_rates(Engine& engine, const Program& program,
                                                    const Timeline& predicted,
                                                    const Timeline& measured);

}  // namespace athanor
