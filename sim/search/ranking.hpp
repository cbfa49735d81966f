// SPDX-License-Identifier: Apache-2.0
// Which of two plans is better, and why.
#pragma once

#include "sim/search/evaluated.hpp"

#include <cstdint>
#include <string>
#include <tuple>

namespace athanor {

/// Ascending: the faster plan, of equally fast ones that with fewer bytes, then the earlier one.
using RankKey = std::tuple<Seconds, Bytes, std::int64_t>;

/// Of `e`, if its step takes `seconds`.
[[nodiscard]] RankKey rank_key(const Evaluated& e, Seconds seconds);
/// Before what is ranked below it: simulated ones by step time, where that is at most `slowest` by
/// energy, then those with a bound, then those that do not fit.
[[nodiscard]] bool ranks_before(const Evaluated& e, const Evaluated& other, Seconds slowest);
/// Why `e`, which fits, is not the best.
[[nodiscard]] std::string why_not_best(const Evaluated& e, const Evaluated& best);

}  // namespace athanor
