// SPDX-License-Identifier: Apache-2.0
// Upper bound on a program's steady-state step time.
#pragma once

#include "sim/cost/contention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/shared_rates.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace athanor::test {

/// Returns each lane's slowdown while every user of each shared resource takes its part, and while
/// the lanes run that contend with it most.
[[nodiscard]] inline LaneValues largest_slowdowns(const Program& program,
                                                  const Platform& platform) {
  LaneValues slowdowns;
  slowdowns.fill(1);
  for (const SharedResource& resource : shared_with(platform, program.cpu_adam_threads)) {
    const double capacity = platform.capacity_per_rank(resource, program.world_size);
    double demand = 0, users = 0;
    for (const auto& [lane, use] : resource.use) {
      demand += use;
      users += use > 0 ? 1 : 0;
    }
    if (demand <= capacity) continue;
    for (const auto& [lane, use] : resource.use) {
      double& most = slowdowns[lane_index(lane)];
      most = std::max(most, use / (capacity / users));
    }
  }
  const ContentionModel contention(platform, platform.ranks_per_node(program.world_size),
                                   program.cpu_adam_threads);
  for (const Lane lane : kLanes) {
    double& most = slowdowns[lane_index(lane)];
    most = std::max(most, contention.most(lane));
  }
  return slowdowns;
}

/// Returns the time of all operations of one rank, issued and run one after the other, with full
/// contention between ranks. It is never below the simulated period.
[[nodiscard]] inline Seconds serial_seconds(const Program& program, const Platform& platform) {
  const LaneValues slowdowns = largest_slowdowns(program, platform);
  Seconds sum = 0;
  for (const Seconds seconds : issue_seconds(program, platform)) sum += seconds;
  const std::vector<Seconds> alone = solo_seconds(program, platform);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    sum += alone[i] * slowdowns[lane_index(program.operations[i].lane)];
  }
  return sum;
}

}  // namespace athanor::test
