// SPDX-License-Identifier: Apache-2.0
// The tuner: finds the fastest plans of a declared space, exactly, without simulating all of it.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/search_space.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

struct SearchOptions {
  int keep = 10;  ///< that many best plans are certain to be simulated and in order
  /// Processes that simulate; 0: one for each processor. The result does not depend on it.
  int workers = 0;
  /// Present: the Pareto front is wanted too (see pareto.hpp).
  std::optional<FrontResolution> front = std::nullopt;
  /// Present: the best plan is that with the least energy of a step, among those that take at most
  /// so many times as long as the fastest (from 1 on). Needs a platform with a power model.
  std::optional<double> energy_within = std::nullopt;
  /// The best plan is that of a machine whose updates on the host take so many times as long as
  /// `platform` says, at least 1. Such a plan costs little where the host is as it was measured,
  /// and one that needs all of the host costs much where it is not (hosts that others use).
  double host_update_slowdown = 1;
  /// Called now and then with what is done of which stage, for progress display.
  std::function<void(const std::string& stage, std::int64_t done, std::int64_t total)> progress =
      nullptr;
};

struct SearchResult {
  Plan best;  ///< with its prediction for `platform` as it is
  /// All of the space: simulated ones by (step time, bytes, index), where energy counts after those
  /// that are fast enough by (energy, step time, bytes, index); then bounded ones by bound, then
  /// those that do not fit by index. Only simulated ones stand for one plan each for certain.
  std::vector<Evaluated> ranked;
  std::vector<Evaluated> front;      ///< by step time; empty unless asked for
  FrontResolution front_resolution;  ///< that it has
  /// Plans. What was ruled out together by a bound may not fit either.
  std::int64_t num_simulated = 0, num_pruned = 0, num_not_fitting = 0;
  [[nodiscard]] std::int64_t num_plans() const noexcept {
    return num_simulated + num_pruned + num_not_fitting;
  }
};

/// Searches `space` for the smallest simulated step time (or energy) that fits memory; ties go to
/// fewer bytes, then to the earlier candidate. Equal to simulating everything, because a bound
/// never exceeds what it bounds. Simulates in copies of this process, which must have no other
/// thread. `engine` simulates `platform` with the request's number of GPUs; a process has one.
/// Throws InfeasibleError when nothing fits, with changes that would (see nearest.hpp).
[[nodiscard]] SearchResult search(const Profile& profile, const Platform& platform, Engine& engine,
                                  const SearchSpace& space, const PlanRequest& request,
                                  const SearchOptions& options = {});

}  // namespace athanor
