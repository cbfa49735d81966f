// SPDX-License-Identifier: Apache-2.0
// Activities beside each other: how much longer each takes than alone, and the shared resources
// that explain it.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/samples.hpp"
#include "sim/model/platform.hpp"

#include <map>
#include <string>
#include <vector>

namespace athanor {

/// One measured pair of lanes: how many times longer each takes while the other runs than alone. A
/// lane paired with itself stands for that lane of another rank.
struct Disturbance {
  std::string first, second;  ///< lane names
  double first_slowdown = 1, second_slowdown = 1;
};

/// What `count` equal activities of one lane, on as many ranks, achieve together.
struct Crowd {
  Lane lane = Lane::Compute;
  int count = 1;
  double slowdown = 1;  ///< of each, compared with one alone
};

/// Two sets, because a lane beside itself needs buffers of its own.
struct LaneActivities {
  Activity first, second;
};

/// Every pair of `lanes`, a lane beside itself included; each lane alone once.
[[nodiscard]] std::vector<Disturbance> measure_pairs(const std::map<Lane, LaneActivities>& lanes,
                                                     const StoppingRule& rule);

/// Every pair of lanes but those of files, a lane beside itself included. `compute_threads` of the
/// compute lane.
[[nodiscard]] std::vector<Disturbance> measure_disturbances(int compute_threads,
                                                            const StoppingRule& rule);

/// `count` activities of `lane` at once.
[[nodiscard]] Crowd measure_crowd(Lane lane, int count, int compute_threads,
                                  const StoppingRule& rule);

/// Activities at full speed that the resource behind `crowd` carries: count / slowdown, and one at
/// least, since one alone is not slowed down. Sharing max-min fairly, a resource of that capacity
/// slows each of `count` activities by `slowdown`.
[[nodiscard]] double capacity_of(const Crowd& crowd);

/// One capacity for crowds of several lanes: the geometric mean of theirs, which halves the
/// relative error between the extremes.
[[nodiscard]] double common_capacity(const std::vector<Crowd>& crowds);

/// Pairs of lanes of `lanes` as crowds of two, with the geometric mean of both slowdowns.
[[nodiscard]] std::vector<Crowd> crowds_of_two(const std::vector<Disturbance>& disturbances,
                                               const std::vector<Lane>& lanes);

/// "cores" (every lane; compute takes `compute_threads`) and "memory" (the lanes that only move
/// and update data).
[[nodiscard]] std::vector<SharedResource> fit_shared(const Crowd& compute,
                                                     const std::vector<Crowd>& memory,
                                                     int compute_threads);

/// The lanes that are bound by memory.
[[nodiscard]] std::vector<Lane> memory_lanes();

}  // namespace athanor
