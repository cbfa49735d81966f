// SPDX-License-Identifier: Apache-2.0
#include "sim/search/travel_search.hpp"

#include "sim/bounds/bounds.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/cache_slots.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Whether `unit` can have the pattern, on some number of ranks.
bool takes(const UnitPattern& pattern, const Architecture& architecture, const Unit& unit) {
  return &pattern == &tensors_split() ? has_tensors_to_split(architecture, unit)
                                      : has_only_experts(unit);
}

bool divides(const UnitPattern& pattern, const Architecture& architecture, const Unit& unit,
             int ranks) {
  return &pattern == &tensors_split() ? tensors_divide(architecture, unit, ranks)
                                      : !unaligned_cut(unit, pattern, ranks);
}

/// Returns the costs under a pattern at a micro-batch size, by unit class; empty where some unit
/// that can have it was not measured so.
std::map<std::string, const StagedCost*> travel_costs(const TuningProblem& problem,
                                                      const UnitPattern& pattern,
                                                      std::int64_t micro_batch) {
  const Architecture& architecture = problem.profile.architecture;
  const int ranks = problem.request.num_gpus;
  std::map<std::string, const StagedCost*> found;
  for (const Unit& unit : architecture.units) {
    if (!takes(pattern, architecture, unit) || found.contains(unit.unit_class)) continue;
    if (!divides(pattern, architecture, unit, ranks)) return {};
    const auto& staged = problem.profile.cost(unit.unit_class, micro_batch).staged;
    const auto fits = std::ranges::find_if(staged, [&](const StagedCost& cost) {
      return cost.pattern == pattern.name() && cost.world_size == ranks;
    });
    if (fits == staged.end()) return {};
    found[unit.unit_class] = &*fits;
  }
  return found;
}

/// Candidates of the rest of the model, one for each combination of the grid.
std::vector<Candidate> grid(const TuningProblem& problem, const SearchSpace& space,
                            const UnitPattern& pattern) {
  const Architecture& architecture = problem.profile.architecture;
  const int units = static_cast<int>(architecture.units.size());
  const bool offloads = !problem.platform.cpu_adam.empty();
  std::set<BatchSplit> batches;
  for (BatchSplit split : space.batches) {
    split.group = 1;
    if (!travel_costs(problem, pattern, split.micro_batch).empty()) batches.insert(split);
  }
  std::set<Candidate> candidates;
  for (const BatchSplit& batch : batches) {
    for (const Sharding sharding : space.shardings) {
      for (const int recompute : {0, units / 4, units / 2, 3 * units / 4, units}) {
        for (const auto& [optimizer, parameters] :
             {std::pair{units, units}, std::pair{0, units}, std::pair{0, 0}}) {
          if (optimizer == 0 && !offloads) continue;
          Candidate c;
          c.batch = batch;
          c.sharding = sharding;
          c.chunk_elements = space.chunk_elements[space.chunk_elements.size() / 2];
          c.recompute_units = recompute;
          c.leading_gpu_optimizer = optimizer;
          c.leading_gpu_parameters = sharding == Sharding::Sharded ? parameters : units;
          c.prefetch_depth = 1;
          c.cache_slots = std::max(2, least_cache_slots(architecture, 1));
          c.gradient_buffers = space.gradient_buffers.back();
          c.adam_threads = space.adam_threads.back();
          if (is_sensible(c, problem.request.num_gpus, architecture)) candidates.insert(c);
        }
      }
    }
  }
  return {candidates.begin(), candidates.end()};
}

Plan travelling_plan(const TuningProblem& problem, const UnitPattern& pattern,
                     const Candidate& candidate, Home optimizer) {
  Plan plan = make_plan(candidate, problem.profile, problem.request);
  plan.cuda_graphs = false;  // nobody has measured those of stages
  const auto costs = travel_costs(problem, pattern, plan.micro_batch);
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = problem.profile.architecture.units[u];
    if (!takes(pattern, problem.profile.architecture, unit)) continue;
    UnitPlan& unit_plan = plan.units[u];
    unit_plan.pattern = &pattern;
    unit_plan.capacity = costs.at(unit.unit_class)->capacity;
    unit_plan.sharding = Sharding::OptimizerSharded;
    unit_plan.chunks = {
        {num_chunks(unit, plan.chunk_elements, plan.world_size, pattern), Home::Gpu, optimizer}};
  }
  return plan;
}

struct Bounded {
  Seconds bound = 0;
  std::int64_t index = 0;  ///< place in the grid
  Plan plan;
  TierBytes peak;
};

}  // namespace

bool can_have(const TuningProblem& problem, const UnitPattern& pattern) {
  if (problem.request.num_gpus < 2 || problem.request.snapshot != Snapshot::None ||
      problem.request.adam_state == AdamState::Int8) {
    return false;
  }
  const std::vector<std::int64_t> sizes = problem.profile.micro_batches();
  return std::ranges::any_of(
      sizes, [&](std::int64_t size) { return !travel_costs(problem, pattern, size).empty(); });
}

TravelSearch search_travel(const TuningProblem& problem, Engine& engine, const SearchSpace& space,
                           Seconds limit, const UnitPattern& pattern) {
  TravelSearch result;
  result.pattern = &pattern;
  std::vector<Bounded> fitting;
  for (const Candidate& candidate : grid(problem, space, pattern)) {
    for (const Home optimizer : {Home::Gpu, Home::Host}) {
      if (optimizer == Home::Host && problem.platform.cpu_adam.empty()) continue;
      Bounded each{
          0, result.num_plans, travelling_plan(problem, pattern, candidate, optimizer), {}};
      const Program program = lower(problem.profile, each.plan);
      each.peak = peak_bytes(program);
      ++result.num_plans;
      if (!fits(each.peak, problem.ranks_per_node, problem.limits)) {
        ++result.num_not_fitting;
        continue;
      }
      each.bound = lower_bound_seconds(program, problem.platform);
      fitting.push_back(std::move(each));
    }
  }
  std::ranges::sort(fitting, {},
                    [](const Bounded& each) { return std::pair(each.bound, each.index); });
  for (Bounded& each : fitting) {
    if (each.bound >= limit) break;
    ++result.num_simulated;
    const Seconds seconds =
        engine.simulate(lower(problem.profile, each.plan), {.record_intervals = false})
            .step_seconds;
    if (seconds >= limit) continue;
    limit = seconds;
    each.plan.prediction = Prediction{seconds, each.peak};
    result.best = std::move(each.plan);
  }
  return result;
}

}  // namespace athanor
