// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/bounds.hpp"

#include "sim/model/costs.hpp"
#include "sim/model/power.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace athanor {
namespace {

constexpr std::size_t index(Lane lane) noexcept { return static_cast<std::size_t>(lane); }

Seconds total(const std::vector<Seconds>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), Seconds{0});
}

/// The phases of units: at full clock in `seconds`; returns what the power limit makes of their
/// sum.
Seconds at_full_clock(const Program& program, const Platform& platform,
                      std::vector<Seconds>& seconds) {
  PoweredSeconds sum;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const PoweredSeconds powered = powered_seconds(program.operations[i], program, platform);
    if (powered.full_clock() <= 0) continue;
    seconds[i] = powered.full_clock();
    sum += powered;
  }
  return sum.most();
}

LaneSeconds busy_seconds(const Program& program, const std::vector<Seconds>& seconds) {
  LaneSeconds busy{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    busy[index(program.operations[i].lane)] += seconds[i];
  }
  return busy;
}

/// Ends of the next step's operations after those of `before`, when nothing but lanes and waits
/// delays them.
void advance(const Program& program, const std::vector<Seconds>& seconds,
             const std::vector<Seconds>& before, std::vector<Seconds>& after) {
  std::array<Seconds, kNumLanes> lane_end{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    lane_end[index(program.operations[i].lane)] = before[i];
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Operation& op = program.operations[i];
    Seconds& end = lane_end[index(op.lane)];
    for (const std::int32_t wait : op.waits) end = std::max(end, after[wait]);
    for (const std::int32_t wait : op.previous_waits) end = std::max(end, before[wait]);
    end += seconds[i];
    after[i] = end;
  }
}

/// A limit from below on the longest cycle. When every operation ends at least d later than in the
/// step before, so it does in every later step; a few steps bring d close to the longest cycle.
Seconds longest_cycle(const Program& program, const std::vector<Seconds>& seconds) {
  constexpr int kMaxSteps = 8;
  constexpr double kTolerance = 1e-9;
  Seconds best = 0;
  std::vector<Seconds> before(seconds.size()), after(seconds.size());
  for (int step = 0; step < kMaxSteps; ++step) {
    advance(program, seconds, before, after);
    Seconds least = std::numeric_limits<Seconds>::infinity();
    Seconds most = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      least = std::min(least, after[i] - before[i]);
      most = std::max(most, after[i] - before[i]);
    }
    best = std::max(best, least);
    if (most - least <= kTolerance * most) break;
    before.swap(after);
  }
  return best;
}

}  // namespace

Slowdowns slowdowns(const Platform& platform, int world_size, int adam_threads) {
  Slowdowns result;
  result.least.fill(1);
  result.least_disturbed.fill(1);
  result.most.fill(1);
  result.shared = shared_with(platform, adam_threads);
  for (SharedResource& resource : result.shared) {
    const double capacity = platform.capacity_per_rank(resource, world_size);
    resource.capacity = capacity;
    double demand = 0, users = 0;
    for (const auto& [lane, use] : resource.use) {
      demand += use;
      users += use > 0 ? 1 : 0;
    }
    if (demand <= capacity) continue;  // cannot slow anything down
    for (const auto& [lane, use] : resource.use) {
      double& least = result.least[index(lane)];
      double& most = result.most[index(lane)];
      least = std::max(least, use / capacity);
      most = std::max(most, use / (capacity / users));
    }
  }
  if (platform.interference.empty()) return result;
  const Interference interference(platform, platform.ranks_per_node(world_size), adam_threads);
  for (const Lane lane : kLanes) {
    result.least_disturbed[index(lane)] = interference.least(lane);
    result.least[index(lane)] = std::max(result.least[index(lane)], interference.least(lane));
    result.most[index(lane)] = std::max(result.most[index(lane)], interference.most(lane));
  }
  result.limits = fluid_limits(interference);
  return result;
}

const Slowdowns& SlowdownTable::at(int adam_threads) {
  const auto [entry, is_new] = by_threads_.try_emplace(adam_threads);
  if (is_new) entry->second = slowdowns(platform_, world_size_, adam_threads);
  return entry->second;
}

Seconds busiest_seconds(const LaneSeconds& busy, const Slowdowns& slowdown) {
  Seconds most = 0;
  for (std::size_t lane = 0; lane < busy.size(); ++lane) {
    most = std::max(most, busy[lane] * slowdown.least[lane]);
  }
  for (const LaneSeconds& weights : slowdown.limits) {
    most = std::max(most, std::inner_product(weights.begin(), weights.end(), busy.begin(), 0.0));
  }
  for (const SharedResource& resource : slowdown.shared) {
    double amount = 0;
    for (const auto& [lane, use] : resource.use) amount += busy[index(lane)] * use;
    if (resource.capacity > 0) most = std::max(most, amount / resource.capacity);
  }
  return most;
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform) {
  return lower_bound_seconds(program, platform,
                             slowdowns(platform, program.world_size, program.cpu_adam_threads));
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                            const Slowdowns& slowdown) {
  if (program.operations.empty()) return 0;
  std::vector<Seconds> seconds = solo_seconds(program, platform);
  const Seconds issue = total(issue_seconds(program, platform));
  const Seconds limited =
      at_full_clock(program, platform, seconds) * slowdown.least[index(Lane::Compute)];
  const Seconds busy = busiest_seconds(busy_seconds(program, seconds), slowdown);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] *= slowdown.least[index(program.operations[i].lane)];
  }
  return std::max({busy, limited, issue, longest_cycle(program, seconds)});
}

Seconds serial_seconds(const Program& program, const Platform& platform) {
  const Slowdowns slowdown = slowdowns(platform, program.world_size, program.cpu_adam_threads);
  const LaneSeconds busy = busy_seconds(program, solo_seconds(program, platform));
  Seconds sum = total(issue_seconds(program, platform));
  for (std::size_t lane = 0; lane < busy.size(); ++lane) sum += busy[lane] * slowdown.most[lane];
  return sum;
}

}  // namespace athanor
