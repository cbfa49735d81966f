// SPDX-License-Identifier: Apache-2.0
// Plans some of whose units have another pattern than weights travel, beside those of the search.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/model/plan.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/search/space/search_space.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Patterns of the units of a plan, by unit class. The weights of all other classes travel.
using PatternMix = std::map<std::string, const UnitPattern*>;

/// Results of a search among plans of some mixes.
struct TravelSearch {
  /// Patterns of these plans beside weights travel, each of which every plan has.
  std::vector<const UnitPattern*> patterns;
  std::optional<Plan> best;    ///< the fastest that fits, with its prediction; none fits or is
                               ///< faster than the limit
  std::int64_t num_plans = 0;  ///< tried, of which
  std::int64_t num_not_fitting = 0;  ///< need too much memory, and
  std::int64_t num_simulated = 0;    ///< had a lower bound below the fastest
};

/// Lists the mixes of some of `patterns` that the request can have, beside that of weights alone:
/// every combination of patterns that suit a class, divide among the request's ranks, and have
/// their costs in the profile. Mixes of few patterns come first.
[[nodiscard]] std::vector<PatternMix> possible_mixes(
    const TuningProblem& problem, const std::vector<const UnitPattern*>& patterns);

/// Lists the patterns of a mix, each once.
[[nodiscard]] std::vector<const UnitPattern*> patterns_of(const PatternMix& mix);

/// Returns the mix of a plan, by the first unit of each class.
[[nodiscard]] PatternMix mix_of(const Plan& plan, const Architecture& architecture);

/// Tries a grid of some hundred plans of each of `mixes`, which have the same patterns: each batch
/// split of `space`, in groups of one; each sharding; a few numbers of units that recompute; with
/// and without state and parameters on the GPU, for units with those patterns and for the rest
/// apart. Plans are simulated in the order of their lower bounds, while these are below `limit` and
/// below the fastest so far. The grid is coarser than what search() tries of plans whose weights
/// travel.
[[nodiscard]] TravelSearch search_travel(const TuningProblem& problem, Engine& engine,
                                         const SearchSpace& space, Seconds limit,
                                         const std::vector<PatternMix>& mixes);

}  // namespace athanor
