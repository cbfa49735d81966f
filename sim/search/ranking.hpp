// SPDX-License-Identifier: Apache-2.0
// The order of plans, and the reason why one is not the best.
#pragma once

#include "sim/search/search.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace athanor {

/// Key of the order by time: step time, then bytes in all tiers, then index.
using RankKey = std::tuple<Seconds, Bytes, std::int64_t>;

/// Key of `e` if its step takes `seconds`.
[[nodiscard]] RankKey rank_key(const Evaluated& e, Seconds seconds);
/// Sorts plans, the best first: simulated plans by step time, then pruned ones by bound, then those
/// that do not fit. Simulated plans with a step time of at most `slowest` come first, by energy.
void sort_by_rank(std::vector<Evaluated>& plans, Seconds slowest);
/// Says why `e`, one of those that `result` ranks, is not the best; empty for the best. Texts are
/// made on demand, because there are millions of plans.
[[nodiscard]] std::string why_not_best(const Evaluated& e, const SearchResult& result);

}  // namespace athanor
