// SPDX-License-Identifier: Apache-2.0
// The tuner: finds the fastest plans of a declared space, exactly, without simulating all of it.
#pragma once

#include "sim/base/progress.hpp"
#include "sim/bounds/bound_terms.hpp"
#include "sim/engine/engine.hpp"
#include "sim/patterns/patterns.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/space/search_space.hpp"
#include "sim/search/travel_search.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

struct SearchOptions {
  int keep = 10;  ///< number of best plans that are simulated and in order
  /// Number of processes that simulate; 0: one for each processor. The result does not depend on
  /// it.
  int workers = 0;
  /// Resolution of the Pareto front (pareto.hpp); absent: no front is made.
  std::optional<FrontResolution> front = std::nullopt;
  /// Factor of at least 1. If present, the best plan has the least energy of a step among those
  /// that take at most this many times as long as the fastest. Needs a platform with a power model.
  std::optional<double> energy_within = std::nullopt;
  /// Patterns that units may have. Plans whose weights all travel are tried if that is one of them.
  std::vector<const UnitPattern*> patterns = all_patterns();
  /// If present, plans of this mix alone are tried; an empty one stands for weights that travel.
  std::optional<PatternMix> mix = std::nullopt;
  /// Factor of at least 1: the best plan is that of a machine whose updates on the host take this
  /// many times as long. Such a plan costs little where the host is as it was measured. A plan that
  /// needs all of the host costs much where others use it too.
  double host_update_slowdown = 1;
  /// Terms of the lower bounds. They decide how many plans are simulated, not which are best.
  // GCC warns of aggregates that leave out a member without an initializer.
  BoundTerms bound_terms = {};  // NOLINT(readability-redundant-member-init)
  Bytes memory = 0;             ///< host memory for the search's own tables; 0: all that is usable
  /// Called now and then with the progress of a stage.
  OnProgress progress = nullptr;
};

struct SearchResult {
  Plan best;  ///< with its prediction for the problem's platform
  /// All of the space: simulated plans by (step time, bytes, index), then pruned ones by bound,
  /// then those that do not fit by index. With energy_within, plans that are fast enough come
  /// first, by (energy, step time, bytes, index). Only a simulated entry always represents one
  /// plan.
  std::vector<Evaluated> ranked;
  std::vector<Evaluated> front;      ///< by step time; empty unless asked for
  FrontResolution front_resolution;  ///< that `front` has
  MemoryLimits limits;               ///< in which plans had to fit
  int ranks_per_node = 1;
  /// Searches among plans some of whose units have other patterns, by the patterns of each. `best`
  /// is one of theirs if that is faster; `ranked` has none.
  // GCC warns of aggregates that leave out a member without an initializer.
  std::vector<TravelSearch> travel = {};  // NOLINT(readability-redundant-member-init)
  bool travel_wins = false;               ///< `best` is one of them
  /// Numbers of plans. Some of those that were pruned together may not fit either, and where memory
  /// is filled, families that were ruled out whole count with the plans that leave some unused.
  std::int64_t num_simulated = 0, num_pruned = 0, num_not_fitting = 0;
  std::int64_t num_lowered = 0;  ///< programs that were lowered only to bound their candidates
  [[nodiscard]] std::int64_t num_plans() const noexcept {
    return num_simulated + num_pruned + num_not_fitting;
  }
};

/// Searches `space` for the smallest simulated step time (or energy) that fits memory; ties go to
/// fewer bytes, then to the earlier candidate. The answer equals that of simulating everything,
/// because a bound never exceeds what it bounds. Simulates in copies of this process, which must
/// have no other thread. `engine` simulates the problem's platform with the request's number of
/// GPUs; a process has one. Where the profile has their costs, plans of other patterns, and of
/// mixes of them, are tried too (search_travel), unless the request is for a front, for energy or
/// for a slower host. Throws InputError where these alone are asked for and cannot be tried. Throws
/// InfeasibleError when nothing fits, with changes that would (infeasibility_advice.hpp).
[[nodiscard]] SearchResult search(const TuningProblem& problem, Engine& engine,
                                  const SearchSpace& space, const SearchOptions& options = {});

}  // namespace athanor
