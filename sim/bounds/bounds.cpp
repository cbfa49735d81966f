// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds/bounds.hpp"

#include "sim/cost/costs.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/cost/shared_rates.hpp"

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
std::vector<PowerDraw> kernels_of(const Program& program,
                                  const std::vector<PowerDraw>& power_draws) {
  std::vector<PowerDraw> kernels;
  for (std::size_t i = 0; i < power_draws.size(); ++i) {
    if (program.operations[i].lane == Lane::Compute) add_kernel(kernels, power_draws[i]);
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
                      const std::vector<PowerDraw>& power_draws, const BoundTables& slowdown) {
  std::vector<Seconds> seconds(power_draws.size());
  for (std::size_t i = 0; i < power_draws.size(); ++i) {
    seconds[i] = power_draws[i].seconds * slowdown.least[lane_index(program.operations[i].lane)];
  }
  if (!platform.power) return longest_cycle(program, seconds);
  std::vector<LagrangianBound> powered(power_draws.size());
  LagrangianBound sum;
  for (std::size_t i = 0; i < power_draws.size(); ++i) {
    if (!is_unit_phase(program.operations[i])) continue;
    sum += powered[i] = lagrangian_bound(power_draws[i], platform);
  }
  const double least = slowdown.least[lane_index(Lane::Compute)];
  Seconds most = 0;
  std::vector<Seconds> priced(seconds.size());
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      priced[i] = is_unit_phase(program.operations[i])
                      ? least * (powered[i].at[multiplier] - powered[i].energy(multiplier))
                      : (1 - kEnergyMultipliers[multiplier]) * seconds[i];
    }
    most = std::max(most, longest_cycle(program, priced) + least * sum.energy(multiplier));
  }
  return most;
}

/// What lanes that run at once do to each other by what they share.
ContentionModel sharing(const Platform& platform, int world_size, int adam_threads) {
  const SharedRates rates =
      shared_rates(platform, world_size).with_adam(cpu_adam_use(platform, adam_threads));
  LaneValues alone;
  alone.fill(1);
  return ContentionModel([&](LaneSet running) { return rates.slowdowns(running, alone); });
}

}  // namespace

BoundTables bound_tables(const Platform& platform, int world_size, int adam_threads) {
  BoundTables result;
  result.least.fill(1);
  result.least_disturbed.fill(1);
  result.most.fill(1);
  const ContentionModel contention(platform, platform.ranks_per_node(world_size), adam_threads);
  result.limits = lp_dual_bounds(contention, platform.power);
  if (contention.none() && !platform.power) {
    result.limits = lp_dual_bounds(sharing(platform, world_size, adam_threads), {});
    result.limits_are_of_sharing = true;
  }
  for (const DualBound& limit : result.limits) {
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
    result.least_disturbed[lane_index(lane)] = contention.least(lane);
    result.least[lane_index(lane)] =
        std::max(result.least[lane_index(lane)], contention.least(lane));
    result.most[lane_index(lane)] = std::max(result.most[lane_index(lane)], contention.most(lane));
  }
  return result;
}

const BoundTables& BoundTableCache::at(int adam_threads) {
  const auto [entry, is_new] = by_threads_.try_emplace(adam_threads);
  if (is_new) entry->second = bound_tables(platform_, world_size_, adam_threads);
  return entry->second;
}

Seconds busiest_seconds(const LaneValues& busy, const BoundTables& slowdown) {
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

std::vector<Seconds> throttled_seconds(std::span<const PowerDraw> kernels,
                                       const BoundTables& slowdown) {
  std::vector<Seconds> seconds(slowdown.limits.size());
  for (const PowerDraw& kernel : kernels) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] += kernel.seconds * slowdown.limits[i].weight(kernel);
    }
  }
  return seconds;
}

LagrangianBound dual_bound_seconds(const LaneValues& busy, std::span<const Seconds> kernels,
                                   double times, const BoundTables& slowdown) {
  std::vector<Seconds> least(kernels.size());
  std::ranges::transform(kernels, least.begin(), [=](Seconds once) { return times * once; });
  for (std::size_t lane = 0; lane < busy.size(); ++lane) {
    if (busy[lane] == 0) continue;
    const std::vector<double>& weights = slowdown.lane_weights[lane];
    for (std::size_t i = 0; i < least.size(); ++i) least[i] += busy[lane] * weights[i];
  }
  LagrangianBound seconds;
  for (std::size_t i = 0; i < least.size(); ++i) {
    Seconds& most = seconds.at[slowdown.limits[i].multiplier];
    most = std::max(most, least[i]);
  }
  return seconds;
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform) {
  return lower_bound_seconds(program, platform,
                             bound_tables(platform, program.world_size, program.cpu_adam_threads));
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                            const BoundTables& slowdown) {
  if (program.operations.empty()) return 0;
  const std::vector<PowerDraw> power_draws =
      athanor::power_draws(program, platform, solo_seconds(program, platform));
  std::vector<Seconds> seconds(power_draws.size());
  std::ranges::transform(power_draws, seconds.begin(), &PowerDraw::seconds);
  LaneValues busy = busy_seconds(program, seconds);
  const Seconds busiest = busiest_seconds(busy, slowdown);
  busy[lane_index(Lane::Compute)] = 0;
  const std::vector<Seconds> kernels =
      throttled_seconds(kernels_of(program, power_draws), slowdown);
  return std::max({busiest, dual_bound_seconds(busy, kernels, 1, slowdown).most(),
                   total(issue_seconds(program, platform)),
                   cycle_seconds(program, platform, power_draws, slowdown)});
}

Seconds serial_seconds(const Program& program, const Platform& platform) {
  const BoundTables slowdown = bound_tables(platform, program.world_size, program.cpu_adam_threads);
  const LaneValues busy = busy_seconds(program, solo_seconds(program, platform));
  Seconds sum = total(issue_seconds(program, platform));
  for (std::size_t lane = 0; lane < busy.size(); ++lane) sum += busy[lane] * slowdown.most[lane];
  return sum;
}

}  // namespace athanor
