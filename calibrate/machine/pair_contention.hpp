// SPDX-License-Identifier: Apache-2.0
// Contention on the CPU backend: how many times longer activities of two lanes, or several of one
// lane, take at once than alone.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/samples.hpp"
#include "sim/model/platform.hpp"

#include <map>
#include <string>
#include <vector>

namespace athanor {

/// Slowdowns of two lanes that ran at once. Two equal lanes are those of two ranks.
struct PairSlowdown {
  Lane first = Lane::Compute, second = Lane::Compute;
  double first_slowdown = 1, second_slowdown = 1;
};

/// Names both lanes and their slowdowns: "h2d | cpu-adam: 1.20 and 1.45 times as long".
[[nodiscard]] std::string describe(const PairSlowdown& pair);

/// Slowdown of each of `count` equal activities of one lane that ran at once, on as many ranks.
struct ConcurrentRun {
  Lane lane = Lane::Compute;
  int count = 1;
  double slowdown = 1;
};

/// Two activities of one lane, because a lane that contends with itself needs buffers of its own.
struct LaneActivities {
  Activity first, second;
};

/// Measures each of `lanes` alone once, and every pair of them, each lane with itself included.
[[nodiscard]] std::vector<PairSlowdown> measure_pairs(const std::map<Lane, LaneActivities>& lanes,
                                                      const StoppingRule& rule);

/// Measures every pair of lanes except those of files. The compute lane has `compute_threads`.
[[nodiscard]] std::vector<PairSlowdown> measure_lane_pairs(int compute_threads,
                                                           const StoppingRule& rule);

/// Measures `count` activities of `lane` at once.
[[nodiscard]] ConcurrentRun measure_concurrent_run(Lane lane, int count, int compute_threads,
                                                   const StoppingRule& rule);

}  // namespace athanor
