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
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

Seconds total(const std::vector<Seconds>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), Seconds{0});
}

/// Kernels of the compute lane; equal ones are added up.
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

/// Waits of all operations, without all else that operations have: bounds read them many times.
struct WaitGraph {
  std::vector<std::uint8_t> lanes;
  std::vector<std::int32_t> waits, previous_waits;     ///< waits of all operations in turn
  std::vector<std::uint32_t> waits_end, previous_end;  ///< ends of each operation's waits

  explicit WaitGraph(const Program& program) {
    for (const Operation& op : program.operations) {
      lanes.push_back(static_cast<std::uint8_t>(lane_index(op.lane)));
      waits.insert(waits.end(), op.waits.begin(), op.waits.end());
      previous_waits.insert(previous_waits.end(), op.previous_waits.begin(),
                            op.previous_waits.end());
      waits_end.push_back(static_cast<std::uint32_t>(waits.size()));
      previous_end.push_back(static_cast<std::uint32_t>(previous_waits.size()));
    }
  }
};

/// Computes in `after` when the next step's operations end, if only lanes and waits delay them.
/// `before` has the ends of the step before.
void advance(const WaitGraph& graph, const std::vector<Seconds>& seconds,
             const std::vector<Seconds>& before, std::vector<Seconds>& after) {
  std::array<Seconds, kNumLanes> lane_end{};
  for (std::size_t i = 0; i < seconds.size(); ++i) lane_end[graph.lanes[i]] = before[i];
  std::size_t wait = 0, previous = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    Seconds& end = lane_end[graph.lanes[i]];
    for (; wait < graph.waits_end[i]; ++wait) end = std::max(end, after[graph.waits[wait]]);
    for (; previous < graph.previous_end[i]; ++previous) {
      end = std::max(end, before[graph.previous_waits[previous]]);
    }
    end += seconds[i];
    after[i] = end;
  }
}

/// Lower bound on the longest cycle. If every operation ends at least d later than in the step
/// before, so it does in every later step. A few steps bring d close to the longest cycle.
Seconds longest_cycle(const WaitGraph& graph, const std::vector<Seconds>& seconds) {
  constexpr int kMaxSteps = 8;
  constexpr double kTolerance = 1e-9;
  Seconds best = 0;
  std::vector<Seconds> before(seconds.size()), after(seconds.size());
  for (int step = 0; step < kMaxSteps; ++step) {
    advance(graph, seconds, before, after);
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

/// lagrangian_bound() of each phase of units; 0 for other operations. Micro-batches repeat phases,
/// so each is computed once.
std::vector<LagrangianBound> lagrangian_bounds(const Program& program, const Platform& platform,
                                               const std::vector<PowerDraw>& power_draws) {
  std::map<std::tuple<Seconds, double, double>, LagrangianBound> known;
  std::vector<LagrangianBound> bounds(power_draws.size());
  for (std::size_t i = 0; i < power_draws.size(); ++i) {
    if (!is_unit_phase(program.operations[i])) continue;
    const PowerDraw& draw = power_draws[i];
    const auto [entry, is_new] = known.try_emplace({draw.seconds, draw.watts, draw.exponent});
    if (is_new) entry->second = lagrangian_bound(draw, platform);
    bounds[i] = entry->second;
  }
  return bounds;
}

/// Longest cycle through one step. With a multiplier, phases of units on it cost time and energy,
/// and others their energy alone.
Seconds cycle_seconds(const Program& program, const Platform& platform,
                      const std::vector<PowerDraw>& power_draws, const BoundTables& tables) {
  const WaitGraph graph(program);
  std::vector<Seconds> seconds(power_draws.size());
  for (std::size_t i = 0; i < power_draws.size(); ++i) {
    seconds[i] = power_draws[i].seconds * tables.least_slowdown[graph.lanes[i]];
  }
  if (!platform.power) return longest_cycle(graph, seconds);
  const std::vector<LagrangianBound> powered = lagrangian_bounds(program, platform, power_draws);
  LagrangianBound sum;
  for (std::size_t i = 0; i < power_draws.size(); ++i) {
    if (is_unit_phase(program.operations[i])) sum += powered[i];
  }
  const double least = tables.least_slowdown[lane_index(Lane::Compute)];
  Seconds most = 0;
  std::vector<Seconds> weighted(seconds.size());
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    if (!tables.terms.has_multiplier(multiplier)) continue;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      weighted[i] = is_unit_phase(program.operations[i])
                        ? least * (powered[i].at[multiplier] - powered[i].energy(multiplier))
                        : (1 - kEnergyMultipliers[multiplier]) * seconds[i];
    }
    most = std::max(most, longest_cycle(graph, weighted) + least * sum.energy(multiplier));
  }
  return most;
}

/// Slowdowns of lanes that run at once, by max-min sharing.
ContentionModel sharing(const Platform& platform, int world_size, int adam_threads) {
  const SharedRates rates =
      shared_rates(platform, world_size).with_adam(cpu_adam_use(platform, adam_threads));
  LaneValues alone;
  alone.fill(1);
  return ContentionModel([&](LaneSet running) { return rates.slowdowns(running, alone); });
}

/// Returns the slowdowns of parts of a step in which the CPU does nothing.
ContentionModel without_cpu(const ContentionModel& contention) {
  return ContentionModel(
      [&](LaneSet running) { return contention.slowdowns(running & ~lane_bit(Lane::CpuAdam)); });
}

}  // namespace

BoundTables bound_tables(const Platform& platform, int world_size, int adam_threads,
                         BoundTerms terms) {
  BoundTables result;
  result.terms = terms;
  result.least_slowdown.fill(1);
  result.least_measured_slowdown.fill(1);
  const auto of_lanes = [=](const ContentionModel& all) {
    return adam_threads == 0 ? without_cpu(all) : all;
  };
  const ContentionModel measured(platform, platform.ranks_per_node(world_size), adam_threads);
  const ContentionModel contention = of_lanes(measured);
  result.dual_bounds = lp_dual_bounds(contention, platform.power);
  if (measured.none() && !platform.power) {
    result.dual_bounds = lp_dual_bounds(of_lanes(sharing(platform, world_size, adam_threads)), {});
    result.dual_bounds_are_max_min = true;
  }
  std::erase_if(result.dual_bounds,
                [=](const DualBound& bound) { return !terms.has_multiplier(bound.multiplier); });
  for (const DualBound& bound : result.dual_bounds) {
    for (const Lane lane : kLanes) {
      result.lane_weights[lane_index(lane)].push_back(bound.weights[lane_index(lane)]);
      result.lane_idle_weights[lane_index(lane)].push_back(bound.idle_weights[lane_index(lane)]);
    }
  }
  result.shared = shared_with(platform, adam_threads);
  for (SharedResource& resource : result.shared) {
    const double capacity = platform.capacity_per_rank(resource, world_size);
    resource.capacity = capacity;
    double demand = 0;
    for (const auto& [lane, use] : resource.use) demand += use;
    if (demand <= capacity) continue;  // cannot slow anything down
    for (const auto& [lane, use] : resource.use) {
      double& least = result.least_slowdown[lane_index(lane)];
      least = std::max(least, use / capacity);
    }
  }
  for (const Lane lane : kLanes) {
    result.least_measured_slowdown[lane_index(lane)] = contention.least(lane);
    result.least_slowdown[lane_index(lane)] =
        std::max(result.least_slowdown[lane_index(lane)], contention.least(lane));
  }
  return result;
}

const BoundTables& BoundTableCache::at(int adam_threads) {
  const auto [entry, is_new] = by_threads_.try_emplace(adam_threads);
  if (is_new) entry->second = bound_tables(platform_, world_size_, adam_threads, terms_);
  return entry->second;
}

Seconds busiest_seconds(const LaneValues& busy, const BoundTables& tables) {
  Seconds most = 0;
  for (std::size_t lane = 0; lane < busy.size(); ++lane) {
    most = std::max(most, busy[lane] * tables.least_slowdown[lane]);
  }
  for (const SharedResource& resource : tables.shared) {
    double amount = 0;
    for (const auto& [lane, use] : resource.use) amount += busy[lane_index(lane)] * use;
    if (resource.capacity > 0) most = std::max(most, amount / resource.capacity);
  }
  return most;
}

std::vector<Seconds> dual_kernel_seconds(std::span<const PowerDraw> kernels,
                                         const BoundTables& tables) {
  std::vector<Seconds> seconds(tables.dual_bounds.size());
  for (const PowerDraw& kernel : kernels) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] += kernel.seconds * tables.dual_bounds[i].weight(kernel);
    }
  }
  return seconds;
}

LagrangianBound dual_bound_seconds(const LaneValues& busy, std::span<const Seconds> kernels,
                                   double times, const BoundTables& tables) {
  std::vector<Seconds> least(kernels.size());
  std::ranges::transform(kernels, least.begin(), [=](Seconds once) { return times * once; });
  for (std::size_t lane = 0; lane < busy.size(); ++lane) {
    if (busy[lane] == 0) continue;
    const std::vector<double>& weights = tables.lane_weights[lane];
    for (std::size_t i = 0; i < least.size(); ++i) least[i] += busy[lane] * weights[i];
  }
  LagrangianBound seconds;
  for (std::size_t i = 0; i < least.size(); ++i) {
    Seconds& most = seconds.at[tables.dual_bounds[i].multiplier];
    most = std::max(most, least[i]);
  }
  return seconds;
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform) {
  return lower_bound_seconds(program, platform,
                             bound_tables(platform, program.world_size, program.cpu_adam_threads));
}

Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                            const BoundTables& tables) {
  if (program.operations.empty()) return 0;
  const std::vector<PowerDraw> power_draws =
      athanor::power_draws(program, platform, solo_seconds(program, platform));
  std::vector<Seconds> seconds(power_draws.size());
  std::ranges::transform(power_draws, seconds.begin(), &PowerDraw::seconds);
  LaneValues busy = busy_seconds(program, seconds);
  const Seconds busiest = busiest_seconds(busy, tables);
  busy[lane_index(Lane::Compute)] = 0;
  const std::vector<Seconds> kernels =
      dual_kernel_seconds(kernels_of(program, power_draws), tables);
  const BoundTerms terms = tables.terms;
  Seconds most = std::max(busiest, total(issue_seconds(program, platform)));
  if (terms.has(BoundTerm::Overlap)) {
    most = std::max(most, dual_bound_seconds(busy, kernels, 1, tables).most());
  }
  if (terms.has(BoundTerm::LoweredCycle)) {
    most = std::max(most, cycle_seconds(program, platform, power_draws, tables));
  }
  return most;
}

}  // namespace athanor
