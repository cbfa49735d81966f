// SPDX-License-Identifier: Apache-2.0
#include "sim/report/explain.hpp"

#include "sim/cost/costs.hpp"

#include <algorithm>
#include <tuple>

namespace athanor {

std::vector<Utilization> utilizations(const Program& program, const Platform& platform,
                                      const BoundTables& tables, Seconds step_seconds) {
  const std::vector<Seconds> seconds = solo_seconds(program, platform);
  LaneValues busy{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    busy[lane_index(program.operations[i].lane)] += seconds[i];
  }
  const auto share = [&](Seconds used) {
    return step_seconds > 0 ? std::min(1.0, used / step_seconds) : 0.0;
  };
  std::vector<Utilization> utilizations;
  for (const Lane lane : kLanes) {
    const auto index = lane_index(lane);
    utilizations.push_back(
        {lane_name(lane), share(busy[index] * tables.least_measured_slowdown[index])});
  }
  for (const SharedResource& resource : tables.shared) {
    double demand = 0;
    for (const auto& [lane, use] : resource.use) {
      demand += use * busy[lane_index(lane)];
    }
    if (resource.capacity > 0)
      utilizations.push_back({resource.name, share(demand / resource.capacity)});
  }
  std::ranges::sort(utilizations, [](const Utilization& a, const Utilization& b) {
    return std::tie(b.share, a.name) < std::tie(a.share, b.name);
  });
  return utilizations;
}

Explanation explain(const Program& program, const Plan& plan, const Profile& profile,
                    const Platform& platform, Seconds step_seconds) {
  Explanation result;
  result.utilizations = utilizations(
      program, platform, bound_tables(platform, program.world_size, program.cpu_adam_threads),
      step_seconds);
  if (step_seconds <= 0) return result;
  const auto tokens = static_cast<double>(plan.global_batch() * plan.sequence_length);
  result.tokens_per_second = tokens / step_seconds;
  if (platform.matmul_flops_per_second > 0) {
    result.model_flops_utilization =
        result.tokens_per_second *
        profile.architecture.model_flops_per_token(plan.sequence_length) /
        (plan.world_size * platform.matmul_flops_per_second);
  }
  return result;
}

}  // namespace athanor
