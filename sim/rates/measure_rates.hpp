// SPDX-License-Identifier: Apache-2.0
// Rates of a timeline, measured or predicted.
#pragma once

#include "sim/model/timeline.hpp"
#include "sim/rates/rates.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// Returns the seconds that forward, recompute and backward take in a step, [rank]: means over the
/// timeline's steady_steps(). Empty where no rank has them.
[[nodiscard]] std::vector<Seconds> phase_seconds_by_rank(const Program& program,
                                                         const Timeline& timeline);

/// Returns the rate that `op` belongs to.
[[nodiscard]] RateKey rate_key(const Operation& op, const Program& program);
/// Returns its name for people: "backward block", "grad-d2h that adds".
[[nodiscard]] std::string rate_name(const RateKey& key);

/// Returns the rates of the timeline's steady_steps(), by the rules of seconds_by_kind().
/// `issue`: the calibrated issue_seconds() by operation; empty: launches are not measured.
///
/// The spread of a rate is the larger of two standard errors of its mean over k steps, relative to
/// the mean T. One adds up the variances s_i^2 of its operations from step to step, as if they were
/// independent: sqrt(sum s_i^2 / k) / T. The other is of the steps' sums, which vary more where all
/// operations of a step are slow together.
[[nodiscard]] MeasuredRates measure_rates(const Program& program, const Timeline& timeline,
                                          std::span<const Seconds> issue = {});

}  // namespace athanor
