// SPDX-License-Identifier: Apache-2.0
// From measured slowdowns to the capacities of shared resources.
#pragma once

#include "calibrate/machine/pair_contention.hpp"
#include "sim/model/platform.hpp"

#include <vector>

namespace athanor {

/// Returns the number of activities at full speed that the resource behind `run` carries: count /
/// slowdown, and at least one, since one alone is not slowed down. Shared max-min fairly, a
/// resource of that capacity slows each of `count` activities by `slowdown`.
[[nodiscard]] double capacity_of(const ConcurrentRun& run);

/// Returns one capacity for runs of several lanes: the geometric mean of theirs, which halves the
/// relative error between the extremes.
[[nodiscard]] double common_capacity(const std::vector<ConcurrentRun>& runs);

/// Returns the pairs of which both lanes are among `lanes` as runs of two. The slowdown of a run is
/// the geometric mean of both.
[[nodiscard]] std::vector<ConcurrentRun> pairs_as_runs(const std::vector<PairSlowdown>& pairs,
                                                       const std::vector<Lane>& lanes);

/// Returns the resources "cores" and "memory". Every lane but those of files takes cores; the
/// compute lane takes `compute_threads`. The lanes that only move and update data take memory.
[[nodiscard]] std::vector<SharedResource> fit_shared(const ConcurrentRun& compute,
                                                     const std::vector<ConcurrentRun>& memory,
                                                     int compute_threads);

/// Returns the resource "nvme" of a node, from pairs of the lanes of files.
[[nodiscard]] SharedResource fit_nvme(const std::vector<PairSlowdown>& pairs);

/// Lanes that are bound by host memory.
[[nodiscard]] std::vector<Lane> memory_lanes();

}  // namespace athanor
