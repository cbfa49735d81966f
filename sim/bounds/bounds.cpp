// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds/bounds.hpp"

#include "sim/bounds/longest_cycle.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/cost/shared_rates.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
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

/// Lanes that may have work.
LaneSet used_lanes(int adam_threads, bool uses_files) {
  LaneSet used = kD2HAdds - 1;
  if (adam_threads == 0) used &= ~lane_bit(Lane::CpuAdam);
  if (!uses_files) used &= ~(lane_bit(Lane::NvmeRead) | lane_bit(Lane::NvmeWrite));
  return used;
}

double least_of_adding(const ContentionModel& contention) {
  double least = std::numeric_limits<double>::infinity();
  for (LaneSet running = kD2HAdds; running < kNumLaneSets; ++running) {
    if ((running & lane_bit(Lane::D2H)) == 0) continue;
    least = std::min(least, contention.slowdown(Lane::D2H, running));
  }
  return least;
}

}  // namespace

BoundTables bound_tables(const Platform& platform, int world_size, int adam_threads,
                         BoundTerms terms, bool uses_files) {
  BoundTables result;
  result.terms = terms;
  result.least_slowdown.fill(1);
  result.least_measured_slowdown.fill(1);
  const auto of_lanes = [=](const ContentionModel& all) {
    return adam_threads == 0 ? without_cpu(all) : all;
  };
  const ContentionModel measured(platform, platform.ranks_per_node(world_size), adam_threads);
  const ContentionModel contention = of_lanes(measured);
  const LaneSet used = used_lanes(adam_threads, uses_files);
  result.dual_bounds = lp_dual_bounds(contention, platform.power, used);
  if (measured.none() && !platform.power) {
    result.dual_bounds =
        lp_dual_bounds(of_lanes(sharing(platform, world_size, adam_threads)), {}, used);
    result.dual_bounds_are_max_min = true;
  }
  std::erase_if(result.dual_bounds, [=](const DualBound& bound) {
    return !terms.has_multiplier(bound.multiplier) ||
           !(bound.is_plain || terms.has(BoundTerm::FurtherWeights));
  });
  for (const DualBound& bound : result.dual_bounds) {
    result.num_plain_bounds += bound.is_plain ? 1 : 0;
    for (std::size_t kind = 0; kind < kNumWorkKinds; ++kind) {
      result.weights[kind].push_back(bound.weights[kind]);
      result.idle_weights[kind].push_back(bound.idle_weights[kind]);
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
  result.least_slowdown[kAddingCopies] =
      std::max(result.least_slowdown[lane_index(Lane::D2H)], least_of_adding(contention));
  return result;
}

const BoundTables& BoundTableCache::at(int adam_threads) {
  const auto [entry, is_new] = by_threads_.try_emplace(adam_threads);
  if (is_new)
    entry->second = bound_tables(platform_, world_size_, adam_threads, terms_, uses_files_);
  return entry->second;
}

const std::vector<double>& BoundTableCache::kernel_weights(const PowerDraw& kernel,
                                                           int adam_threads) {
  const auto [entry, is_new] =
      kernel_weights_.try_emplace({adam_threads, kernel.watts, kernel.exponent});
  if (is_new) {
    const PowerDraw second{1, kernel.watts, kernel.exponent};
    entry->second = dual_kernel_seconds({&second, 1}, at(adam_threads));
  }
  return entry->second;
}

Seconds busiest_seconds(const WorkValues& busy, const BoundTables& tables) {
  const auto of_lane = [&](Lane lane, const WorkValues& factor) {
    const Seconds seconds = busy[lane_index(lane)] * factor[lane_index(lane)];
    return lane == Lane::D2H ? seconds + busy[kAddingCopies] * factor[kAddingCopies] : seconds;
  };
  Seconds most = 0;
  for (const Lane lane : kLanes) most = std::max(most, of_lane(lane, tables.least_slowdown));
  WorkValues alone;
  alone.fill(1);
  for (const SharedResource& resource : tables.shared) {
    double amount = 0;
    for (const auto& [lane, use] : resource.use) amount += of_lane(lane, alone) * use;
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

LagrangianBound dual_bound_seconds(const WorkValues& busy, std::span<const Seconds> kernels,
                                   double times, const BoundTables& tables) {
  std::vector<Seconds> least(kernels.size());
  std::ranges::transform(kernels, least.begin(), [=](Seconds once) { return times * once; });
  for (std::size_t kind = 0; kind < busy.size(); ++kind) {
    if (busy[kind] == 0) continue;
    const std::vector<double>& weights = tables.weights[kind];
    for (std::size_t i = 0; i < least.size(); ++i) least[i] += busy[kind] * weights[i];
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
  return ProgramBound(program, platform).seconds(tables);
}

struct ProgramBound::Parts {
  Parts(const Program& program, const Platform& platform)
      : graph(program),
        draws(power_draws(program, platform, solo_seconds(program, platform))),
        powered(lagrangian_bounds(program, platform, draws)),
        kernels(kernels_of(program, draws)),
        issue(total(issue_seconds(program, platform))) {
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const Operation& op = program.operations[i];
      kinds.push_back(static_cast<std::uint8_t>(work_index(op.lane, op.accumulate)));
      if (is_unit_phase(op)) phases += powered[i];
      if (op.lane == Lane::CpuAdam) of_cpu.push_back(i);
    }
  }

  /// Gives the CPU's operations the times that they take with `threads`.
  void set_threads(int threads, const Program& program, const Platform& platform) {
    Program rates;
    rates.world_size = program.world_size;
    rates.dtype = program.dtype;
    rates.gradient_dtype = program.gradient_dtype;
    rates.clipped_share = program.clipped_share;
    rates.cpu_adam_threads = threads;
    for (const std::size_t i : of_cpu) {
      draws[i].seconds = solo_seconds(program.operations[i], rates, platform);
    }
  }

  WaitGraph graph;
  std::vector<PowerDraw> draws;
  std::vector<LagrangianBound> powered;  ///< bounds of phases
  LagrangianBound phases;                ///< sum over all
  std::vector<PowerDraw> kernels;
  Seconds issue = 0;
  std::vector<std::uint8_t> kinds;  ///< kinds of work
  std::vector<std::size_t> of_cpu;  ///< operations of the CPU
};

ProgramBound::ProgramBound(const Program& program, const Platform& platform)
    : program_(program), platform_(platform), parts_(std::make_unique<Parts>(program, platform)) {}

ProgramBound::~ProgramBound() = default;

Seconds ProgramBound::seconds(const BoundTables& tables) const {
  if (program_.operations.empty()) return 0;
  const Seconds overlapped =
      overlapped_seconds(tables, dual_kernel_seconds(parts_->kernels, tables));
  if (!tables.terms.has(BoundTerm::LoweredCycle)) return overlapped;
  const double slowdown = tables.least_slowdown[lane_index(Lane::Compute)];
  return std::max(overlapped, cycle_seconds(slowed_seconds(tables), slowdown, tables.terms));
}

Seconds ProgramBound::least_seconds(std::span<const int> adam_threads, BoundTableCache& tables) {
  const int own_threads = program_.cpu_adam_threads;
  const BoundTables& own = tables.at(own_threads);
  if (parts_->of_cpu.empty()) adam_threads = {};
  Seconds overlapped = overlapped_seconds(own, kernel_seconds(tables, own_threads));
  std::vector<Seconds> slowed = slowed_seconds(own);
  double compute = own.least_slowdown[lane_index(Lane::Compute)];
  for (const int threads : adam_threads) {
    if (threads == own_threads) continue;
    const BoundTables& other = tables.at(threads);
    parts_->set_threads(threads, program_, platform_);
    overlapped = std::min(overlapped, overlapped_seconds(other, kernel_seconds(tables, threads)));
    std::ranges::transform(slowed, slowed_seconds(other), slowed.begin(),
                           [](Seconds a, Seconds b) { return std::min(a, b); });
    compute = std::min(compute, other.least_slowdown[lane_index(Lane::Compute)]);
  }
  parts_->set_threads(own_threads, program_, platform_);
  if (!own.terms.has(BoundTerm::LoweredCycle)) return overlapped;
  return std::max(overlapped, cycle_seconds(slowed, compute, own.terms));
}

std::vector<Seconds> ProgramBound::kernel_seconds(BoundTableCache& tables, int adam_threads) const {
  std::vector<Seconds> seconds(tables.at(adam_threads).dual_bounds.size());
  for (const PowerDraw& kernel : parts_->kernels) {
    const std::vector<double>& weights = tables.kernel_weights(kernel, adam_threads);
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += kernel.seconds * weights[i];
  }
  return seconds;
}

Seconds ProgramBound::overlapped_seconds(const BoundTables& tables,
                                         std::span<const Seconds> kernels) const {
  WorkValues busy{};
  for (std::size_t i = 0; i < parts_->draws.size(); ++i) {
    busy[parts_->kinds[i]] += parts_->draws[i].seconds;
  }
  const Seconds busiest = std::max(busiest_seconds(busy, tables), parts_->issue);
  if (!tables.terms.has(BoundTerm::Overlap)) return busiest;
  busy[lane_index(Lane::Compute)] = 0;
  return std::max(busiest, dual_bound_seconds(busy, kernels, 1, tables).most());
}

std::vector<Seconds> ProgramBound::slowed_seconds(const BoundTables& tables) const {
  std::vector<Seconds> seconds(parts_->draws.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = parts_->draws[i].seconds * tables.least_slowdown[parts_->kinds[i]];
  }
  return seconds;
}

/// Longest cycle through one step. With a multiplier, phases of units on it cost time and energy,
/// and others their energy alone.
Seconds ProgramBound::cycle_seconds(const std::vector<Seconds>& seconds, double compute_slowdown,
                                    BoundTerms terms) const {
  std::vector<Seconds> ends(seconds.size());
  if (!platform_.power) return longest_cycle(parts_->graph, seconds, ends);
  Seconds most = 0;
  std::vector<Seconds> weighted(seconds.size());
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    if (!terms.has_multiplier(multiplier)) continue;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const LagrangianBound& powered = parts_->powered[i];
      weighted[i] = is_unit_phase(program_.operations[i])
                        ? compute_slowdown * (powered.at[multiplier] - powered.energy(multiplier))
                        : (1 - kEnergyMultipliers[multiplier]) * seconds[i];
    }
    most = std::max(most, longest_cycle(parts_->graph, weighted, ends) +
                              compute_slowdown * parts_->phases.energy(multiplier));
  }
  return most;
}

}  // namespace athanor
