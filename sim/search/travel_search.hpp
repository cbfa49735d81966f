// SPDX-License-Identifier: Apache-2.0
// Plans whose experts' tokens travel or whose tensors are split, beside those of the search, whose
// weights travel.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/model/plan.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/search/search_space.hpp"

#include <cstdint>
#include <optional>

namespace athanor {

/// Results of a search among such plans.
struct TravelSearch {
  const UnitPattern* pattern = nullptr;  ///< the pattern of all of them
  std::optional<Plan> best;    ///< the fastest that fits, with its prediction; none fits or is
                               ///< faster than the limit
  std::int64_t num_plans = 0;  ///< tried, of which
  std::int64_t num_not_fitting = 0;  ///< need too much memory, and
  std::int64_t num_simulated = 0;    ///< had a lower bound below the fastest
};

/// Whether the profile has costs of `pattern` between the request's ranks for all units that can
/// have it, and the request leaves room for that pattern.
[[nodiscard]] bool can_have(const TuningProblem& problem, const UnitPattern& pattern);

/// Tries a grid of some hundred plans in which every unit that can has `pattern`: each batch
/// split of `space`, in groups of one; each sharding; a few numbers of units that recompute; with
/// and without state and parameters on the GPU, for these units and for the rest apart. Plans are
/// simulated in the order of their lower bounds, while these are below `limit` and below the
/// fastest so far. The grid is coarser than what search() tries of plans whose weights travel.
[[nodiscard]] TravelSearch search_travel(const TuningProblem& problem, Engine& engine,
                                         const SearchSpace& space, Seconds limit,
                                         const UnitPattern& pattern);

}  // namespace athanor
