// SPDX-License-Identifier: Apache-2.0
#include "sim/search/travel_search.hpp"

#include "sim/bounds/bounds.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/cache_slots.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Returns the costs of a unit class under a pattern with exchanges, between the request's ranks;
/// null where the profile has none at that micro-batch size.
const StagedCost* staged_cost(const TuningProblem& problem, const std::string& unit_class,
                              const UnitPattern& pattern, std::int64_t micro_batch) {
  const auto& staged = problem.profile.cost(unit_class, micro_batch).staged;
  const auto found = std::ranges::find_if(staged, [&](const StagedCost& cost) {
    return cost.pattern == pattern.name() && cost.world_size == problem.request.num_gpus;
  });
  return found == staged.end() ? nullptr : &*found;
}

bool has_costs(const TuningProblem& problem, const PatternMix& mix, std::int64_t micro_batch) {
  return std::ranges::all_of(mix, [&](const auto& entry) {
    const auto& [unit_class, pattern] = entry;
    return pattern->exchanges().empty() ||
           staged_cost(problem, unit_class, *pattern, micro_batch) != nullptr;
  });
}

/// Whether all units of a class can have the pattern in some plan of the request.
bool can_have(const TuningProblem& problem, const std::string& unit_class,
              const UnitPattern& pattern) {
  const Architecture& architecture = problem.profile.architecture;
  const bool fits = std::ranges::all_of(architecture.units, [&](const Unit& unit) {
    return unit.unit_class != unit_class ||
           (pattern.suits(architecture, unit) &&
            pattern.divides(architecture, unit, problem.request.num_gpus));
  });
  const std::vector<std::int64_t> sizes = problem.profile.micro_batches();
  return fits && std::ranges::any_of(sizes, [&](std::int64_t size) {
           return has_costs(problem, {{unit_class, &pattern}}, size);
         });
}

/// Candidates of the rest of the model, one for each combination of the grid.
std::vector<Candidate> grid(const TuningProblem& problem, const SearchSpace& space,
                            const PatternMix& mix) {
  const Architecture& architecture = problem.profile.architecture;
  const int units = static_cast<int>(architecture.units.size());
  const bool offloads = !problem.platform.cpu_adam.empty();
  std::set<BatchSplit> batches;
  for (BatchSplit split : space.batches) {
    split.group = 1;
    if (has_costs(problem, mix, split.micro_batch)) batches.insert(split);
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

Plan travelling_plan(const TuningProblem& problem, const PatternMix& mix,
                     const Candidate& candidate, Home optimizer) {
  Plan plan = make_plan(candidate, problem.profile, problem.request);
  plan.cuda_graphs = false;  // nobody has measured those of stages
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = problem.profile.architecture.units[u];
    const auto entry = mix.find(unit.unit_class);
    if (entry == mix.end()) continue;
    const UnitPattern& pattern = *entry->second;
    UnitPlan& unit_plan = plan.units[u];
    unit_plan.pattern = &pattern;
    const StagedCost* const staged =
        staged_cost(problem, unit.unit_class, pattern, plan.micro_batch);
    unit_plan.capacity = staged == nullptr ? 0 : staged->capacity;
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

std::vector<PatternMix> possible_mixes(const TuningProblem& problem,
                                       const std::vector<const UnitPattern*>& patterns) {
  if (problem.request.num_gpus < 2 || problem.request.snapshot != Snapshot::None ||
      problem.request.adam_state == AdamState::Int8) {
    return {};
  }
  std::set<std::string> classes;
  for (const Unit& unit : problem.profile.architecture.units) classes.insert(unit.unit_class);
  std::vector<PatternMix> mixes{{}};
  for (const std::string& unit_class : classes) {
    const std::size_t before = mixes.size();
    for (const UnitPattern* const pattern : patterns) {
      if (pattern == &weights_travel() || !can_have(problem, unit_class, *pattern)) continue;
      for (std::size_t i = 0; i < before; ++i) {
        mixes.push_back(mixes[i]);
        mixes.back()[unit_class] = pattern;
      }
    }
  }
  mixes.erase(mixes.begin());  // weights alone
  std::erase_if(mixes, [&](const PatternMix& mix) {
    return std::ranges::none_of(problem.profile.micro_batches(),
                                [&](std::int64_t size) { return has_costs(problem, mix, size); });
  });
  // Mixes of as few patterns as possible come first, those of one number in the order of classes.
  std::multimap<std::size_t, PatternMix> by_size;
  for (PatternMix& mix : mixes) by_size.emplace(patterns_of(mix).size(), std::move(mix));
  const auto sorted = std::views::values(by_size);
  return {sorted.begin(), sorted.end()};
}

std::vector<const UnitPattern*> patterns_of(const PatternMix& mix) {
  std::vector<const UnitPattern*> patterns;
  for (const auto& [unit_class, pattern] : mix) {
    if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(pattern);
  }
  return patterns;
}

PatternMix mix_of(const Plan& plan, const Architecture& architecture) {
  PatternMix mix;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    mix.try_emplace(architecture.units[u].unit_class, plan.units[u].pattern);
  }
  std::erase_if(mix, [](const auto& entry) { return entry.second == &weights_travel(); });
  return mix;
}

namespace {

/// Tries the grid of one mix. Adds plans that fit to `fitting`.
void try_grid(const TuningProblem& problem, const SearchSpace& space, const PatternMix& mix,
              TravelSearch& result, std::vector<Bounded>& fitting) {
  for (const Candidate& candidate : grid(problem, space, mix)) {
    for (const Home optimizer : {Home::Gpu, Home::Host}) {
      if (optimizer == Home::Host && problem.platform.cpu_adam.empty()) continue;
      Bounded each{0, result.num_plans, travelling_plan(problem, mix, candidate, optimizer), {}};
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
}

}  // namespace

TravelSearch search_travel(const TuningProblem& problem, Engine& engine, const SearchSpace& space,
                           Seconds limit, const std::vector<PatternMix>& mixes) {
  TravelSearch result;
  result.patterns = patterns_of(mixes.front());
  std::vector<Bounded> fitting;
  for (const PatternMix& mix : mixes) try_grid(problem, space, mix, result, fitting);
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
