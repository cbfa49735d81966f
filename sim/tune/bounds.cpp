// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/bounds.hpp"

#include "sim/engine/shared_rates.hpp"
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

Seconds total(const std::vector<Seconds>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), Seconds{0});
}

/// What the compute lane runs; equal kernels as one.
std::vector<Draw> kernels_of(const Program& program, const std::vector<Draw>& draws) {
  std::vector<Draw> kernels;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (program.operations[i].lane == Lane::Compute) add_kernel(kernels, draws[i]);
  }
  return kernels;
}

LaneValues busy_seconds(const Program& program, const std::vector<Seconds>& seconds) {
  LaneValues busy{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    busy[lane_index(program.operations[i].lane)] += seconds[i];
  }
  return busy;
}

/// Ends of the next step's operations after those of `before`, when nothing but lanes and waits
/// delays them.
void advance(const Program& program, const std::vector<Seconds>& seconds,
             const std::vector<Seconds>& before, std::vector<Seconds>& after) {
  std::array<Seconds, kNumLanes> lane_end{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    lane_end[lane_index(program.operations[i].lane)] = before[i];
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Operation& op = program.operations[i];
    Seconds& end = lane_end[lane_index(op.lane)];
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

/// The longest cycle through one step. At a price of energy, phases of units on it cost their time
/// and energy, others their energy alone.
Seconds cycle_seconds(const Program& program, const Platform& platform,
                      const std::vector<Draw>& draws, const Slowdowns& slowdown) {
  std::vector<Seconds> seconds(draws.size());
  for (std::size_t i = 0; i < draws.size(); ++i) {
    seconds[i] = draws[i].seconds * slowdown.least[lane_index(program.operations[i].lane)];
  }
  if (!platform.power) return longest_cycle(program, seconds);
  std::vector<PoweredSeconds> powered(draws.size());
  PoweredSeconds sum;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (!is_unit_phase(program.operations[i])) continue;
    sum += powered[i] = powered_seconds(draws[i], platform);
  }
  const double least = slowdown.least[lane_index(Lane::Compute)];
  Seconds most = 0;
  std::vector<Seconds> priced(seconds.size());
  for (std::size_t price = 0; price < kEnergyShares.size(); ++price) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      priced[i] = is_unit_phase(program.operations[i])
                      ? least * (powered[i].at[price] - powered[i].energy(price))
                      : (1 - kEnergyShares[price]) * seconds[i];
    }
    most = std::max(most, longest_cycle(program, priced) + least * sum.energy(price));
  }
  return most;
}

/// What lanes that run at once do to each other by what they share.
Interference sharing(const Platform& platform, int world_size, int adam_threads) {
  const SharedRates rates =
      shared_rates(platform, world_size).with_adam(cpu_adam_use(platform, adam_threads));
  LaneValues alone;
  alone.fill(1);
  return Interference([&](LaneSet running) { return rates.slowdowns(running, alone); });
}

}  // namespace

Slowdowns slowdowns(const Platform& platform, int world_size, int adam_threads) {
  Slowdowns result;
  result.least.fill(1);
  result.least_disturbed.fill(1);
  result.most.fill(1);
  const Interference interference(platform, platform.ranks_per_node(world_size), adam_threads);
  result.limits = fluid_limits(interference, platform.power);
  if (interference.none() && !platform.power) {
    result.limits = fluid_limits(sharing(platform, world_size, adam_threads), {});
    result.limits_are_of_sharing = true;
  }
  for (const FluidLimit& limit : result.limits) {
    for (const Lane lane : kLanes) {
      result.lane_weights[lane_index(lane)].push_back(limit.weights[lane_index(lane)]);
      result.lane_idle_weights[lane_index(lane)].push_back(limit.idle_weights[lane_index(lane)]);
    }
  }
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
      double& least = result.least[lane_index(lane)];
      double& most = result.most[lane_index(lane)];
      least = std::max(least, use / capacity);
      most = std::max(most, use / (capacity / users));
    }
  }
  for (const Lane lane : kLanes) {
    result.least_disturbed[lane_index(lane)] = interference.least(lane);
    result.least[lane_index(lane)] =
        std::max(result.least[lane_index(lane)], interference.least(lane));
    result.most[lane_index(lane)] =
        std::max(result.most[lane_index(lane)], interference.most(lane));
  }
  return result;
}

const Slowdowns& SlowdownTable::at(int adam_threads) {
  const auto [entry, is_new] = by_threads_.try_emplace(adam_threads);
  if (is_new) entry->second = slowdowns(platform_, world_size_, adam_threads);
  return entry->second;
}

Seconds busiest_seconds(const LaneValues& busy, const Slowdowns& slowdown) {
  Seconds most = 0;
  for (std::size_t lane = 0; lane < busy.size(); ++lane) {
    most = std::max(most, busy[lane] * slowdown.least[lane]);
  }
  for (const SharedResource& resource : slowdown.shared) {
    double amount = 0;
    for (const auto& [lane, use] : resource.use) amount += busy[lane_index(lane)] * use;
    if (resource.capacity > 0) most = std::max(most, amount / resource.capacity);
  }
  return most;
}

std::vector<Seconds> limited_seconds(std::span<const Draw> kernels, const Slowdowns& slowdown) {
  std::vector<Seconds> seconds(slowdown.limits.size());
  for (const Draw& kernel : kernels) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] += kernel.seconds * slowdown.limits[i].weight(kernel);
    }
  }
  return seconds;
}

PoweredSeconds fluid_seconds(const LaneValues& busy, std::span<const Seconds> kernels, double times,
                             const Slowdowns& slowdown) {
  std::vector<Seconds> least(kernels.size());
  std::ranges::transform(kernels, least.begin(), [=](Seconds once) { return times * once; });
  for (std::size_t lane = 0; lane < busy.size(); ++lane) {
    if (busy[lane] == 0) continue;
    const std::vector<double>& weights = slowdown.lane_weights[lane];
    for (std::size_t i = 0; i < least.size(); ++i) least[i] += busy[lane] * weights[i];
  }
  PoweredSeconds seconds;
  for (std::size_t i = 0; i < least.size(); ++i) {
    Seconds& most = seconds.at[slowdown.limits[i].price];
    most = std::max(most, least[i]);
  }
  return seconds;
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform) {
  return lower_bound_seconds(program, platform,
                             slowdowns(platform, program.world_size, program.cpu_adam_threads));
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                            const Slowdowns& slowdown) {
  if (program.operations.empty()) return 0;
  const std::vector<Draw> draws =
      athanor::draws(program, platform, solo_seconds(program, platform));
  std::vector<Seconds> seconds(draws.size());
  std::ranges::transform(draws, seconds.begin(), &Draw::seconds);
  LaneValues busy = busy_seconds(program, seconds);
  const Seconds busiest = busiest_seconds(busy, slowdown);
  busy[lane_index(Lane::Compute)] = 0;
  const std::vector<Seconds> kernels = limited_seconds(kernels_of(program, draws), slowdown);
  return std::max({busiest, fluid_seconds(busy, kernels, 1, slowdown).most(),
                   total(issue_seconds(program, platform)),
                   cycle_seconds(program, platform, draws, slowdown)});
}

Seconds serial_seconds(const Program& program, const Platform& platform) {
  const Slowdowns slowdown = slowdowns(platform, program.world_size, program.cpu_adam_threads);
  const LaneValues busy = busy_seconds(program, solo_seconds(program, platform));
  Seconds sum = total(issue_seconds(program, platform));
  for (std::size_t lane = 0; lane < busy.size(); ++lane) sum += busy[lane] * slowdown.most[lane];
  return sum;
}

}  // namespace athanor
