// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/explain.hpp"

#include "sim/model/costs.hpp"
#include "sim/model/interference.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace athanor {

std::vector<Load> step_loads(const Program& program, const Platform& platform,
                             Seconds step_seconds) {
  const std::vector<Seconds> seconds = solo_seconds(program, platform);
  std::array<Seconds, kNumLanes> busy{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    busy[static_cast<std::size_t>(program.operations[i].lane)] += seconds[i];
  }
  const auto share = [&](Seconds used) {
    return step_seconds > 0 ? std::min(1.0, used / step_seconds) : 0.0;
  };
  const int ranks_per_node = platform.ranks_per_node(program.world_size);
  const Interference interference(platform, ranks_per_node, program.cpu_adam_threads);
  std::vector<Load> loads;
  for (const Lane lane : kLanes) {
    const Seconds at_least = busy[static_cast<std::size_t>(lane)] * interference.least(lane);
    loads.push_back({lane_name(lane), share(at_least)});
  }
  for (const SharedResource& resource : shared_with(platform, program.cpu_adam_threads)) {
    double demand = 0;
    for (const auto& [lane, use] : resource.use)
      demand += use * busy[static_cast<std::size_t>(lane)];
    if (resource.scope == SharedResource::Scope::Node) demand *= ranks_per_node;
    if (resource.capacity > 0) loads.push_back({resource.name, share(demand / resource.capacity)});
  }
  std::ranges::sort(loads, [](const Load& a, const Load& b) {
    return std::tie(b.share, a.name) < std::tie(a.share, b.name);
  });
  return loads;
}

Explanation explain(const Program& program, const Plan& plan, const Profile& profile,
                    const Platform& platform, Seconds step_seconds) {
  Explanation result;
  result.loads = step_loads(program, platform, step_seconds);
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
