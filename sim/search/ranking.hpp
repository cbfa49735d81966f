// SPDX-License-Identifier: Apache-2.0
// The order of plans, and the reason why one is not the best.
#pragma once

#include "sim/search/evaluated.hpp"

#include <cstdint>
#include <string>
#include <tuple>

namespace athanor {

/// Key of the order by time: step time, then bytes in all tiers, then index.
using RankKey = std::tuple<Seconds, Bytes, std::int64_t>;

/// Key of `e` if its step takes `seconds`.
[[nodiscard]] RankKey rank_key(const Evaluated& e, Seconds seconds);
/// Whether `e` is the better one: simulated plans by step time, then pruned ones by bound, then
/// those that do not fit. Simulated plans with a step time of at most `slowest` come first, by
/// energy.
[[nodiscard]] bool ranks_before(const Evaluated& e, const Evaluated& other, Seconds slowest);
/// Says why `e`, which fits, is not the best.
[[nodiscard]] std::string why_not_best(const Evaluated& e, const Evaluated& best);

}  // namespace athanor
