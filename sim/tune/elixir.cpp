// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/elixir.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/model/lowering.hpp"
#include "sim/tune/belady.hpp"
#include "sim/tune/elixir_constants.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>

namespace athanor {
namespace {

/// What the search knows of model and memory. Sizes in elements of the parameters' type.
struct Problem {
  const Architecture& architecture;
  int num_gpus;
  DataType dtype;
  double capacity = 0;             ///< for cache blocks and resident chunks
  std::int64_t unit_elements = 1;  ///< of one cache slot in the class that has most units
  int class_size = 1;
};

Bytes pool_bytes(const Program& program, const UnitPool& pool) {
  return pool.slots * pool.elements * size_of(program.dtype);
}

const UnitPool& main_pool(const Program& program) {
  std::vector<int> units(program.pools.size());
  for (const std::int32_t pool : program.pool_of) {
    if (pool >= 0) ++units[static_cast<std::size_t>(pool)];
  }
  const auto largest = std::max_element(units.begin(), units.end());
  return program.pools[static_cast<std::size_t>(largest - units.begin())];
}

/// `lean`: the program with everything on the host, from which the fixed parts are read off.
Problem make_problem(const Profile& profile, const Platform& platform, const PlanRequest& request,
                     const Program& lean) {
  Bytes fixed = platform.backend == "cuda" ? elixir::kDriverReserve : 0;
  Bytes resident = 0;
  for (const Buffer& buffer : lean.static_buffers) {
    if (buffer.tier == Tier::Gpu) resident += buffer.bytes;
  }
  const auto activations = static_cast<double>(peak_bytes(lean).gpu - resident);
  fixed += resident - pool_bytes(lean, main_pool(lean));
  const auto limit = static_cast<double>(effective_limits(request, platform).gpu);
  const double bytes = elixir::kUsableFraction * (limit - static_cast<double>(fixed) -
                                                  elixir::kActivationMargin * activations);
  return {.architecture = profile.architecture,
          .num_gpus = request.num_gpus,
          .dtype = profile.dtype,
          .capacity = std::max(0.0, bytes / static_cast<double>(size_of(profile.dtype))),
          .unit_elements = std::max<std::int64_t>(1, main_pool(lean).elements),
          .class_size = largest_class_size(profile.architecture)};
}

/// Chunk numbers in the order in which one step uses them.
std::vector<int> chunk_trace(const Problem& problem, std::int64_t chunk_elements) {
  std::vector<std::vector<int>> of_unit;
  int next = 0;
  for (const Unit& unit : problem.architecture.units) {
    const std::int64_t count = num_chunks(unit, chunk_elements, problem.num_gpus);
    auto& chunks = of_unit.emplace_back(static_cast<std::size_t>(count));
    std::iota(chunks.begin(), chunks.end(), next);
    next += static_cast<int>(count);
  }
  std::vector<int> trace;
  for (const auto& chunks : of_unit) trace.insert(trace.end(), chunks.begin(), chunks.end());
  for (const auto& chunks : std::views::reverse(of_unit)) {
    trace.insert(trace.end(), chunks.begin(), chunks.end());
  }
  return trace;
}

std::int64_t num_blocks(const Problem& problem, std::int64_t chunk_elements) {
  const double blocks = problem.capacity / static_cast<double>(chunk_elements);
  return static_cast<std::int64_t>(blocks) - elixir::kOverlapBlocks;
}

/// Elements moved in and out per step, all free memory being cache.
double moved_elements(const Problem& problem, std::int64_t chunk_elements) {
  const std::int64_t blocks = num_blocks(problem, chunk_elements);
  if (blocks < 1) return std::numeric_limits<double>::infinity();
  const auto misses =
      static_cast<double>(belady_misses(chunk_trace(problem, chunk_elements), blocks));
  return 2 * misses * static_cast<double>(chunk_elements);
}

std::int64_t smallest_chunk(const Problem& problem) {
  std::int64_t largest = 1;
  for (const Unit& unit : problem.architecture.units) {
    for (const Parameter& parameter : unit.parameters) {
      largest = std::max(largest, parameter.num_elements());
    }
  }
  std::int64_t chunk = elixir::kSmallestChunk / size_of(problem.dtype);
  while (chunk < largest) chunk *= 2;
  return chunk;
}

/// Elixir packs units into larger chunks; ours end with their unit.
std::int64_t search_chunk_elements(const Problem& problem) {
  const std::int64_t whole = largest_unit_elements(problem.architecture);
  const std::int64_t smallest = smallest_chunk(problem);
  if (smallest >= whole) return whole;
  const std::int64_t step =
      std::max<std::int64_t>(1, smallest * (elixir::kChunkRange - 1) / elixir::kChunkTrials);
  std::int64_t best = smallest;
  double fewest = std::numeric_limits<double>::infinity();
  for (std::int64_t chunk = smallest; chunk <= elixir::kChunkRange * smallest; chunk += step) {
    const double moved = moved_elements(problem, chunk);
    if (moved < fewest) {
      fewest = moved;
      best = chunk;
    }
  }
  return best;
}

int whole_slots(const Problem& problem, double elements) {
  const auto slots = static_cast<int>(
      std::min<double>(problem.class_size, elements / static_cast<double>(problem.unit_elements)));
  return std::max(slots, elixir::kPrefetchDepth + 1);
}

int first_cache_slots(const Problem& problem, std::int64_t chunk_elements) {
  chunk_elements = std::min(chunk_elements, problem.unit_elements);
  std::int64_t blocks = num_blocks(problem, chunk_elements);
  if (!elixir::cache_first(problem.dtype, problem.num_gpus)) {
    const std::int64_t region = (problem.unit_elements + chunk_elements - 1) / chunk_elements + 1;
    blocks = std::max<std::int64_t>(elixir::kSmallestCache, region) + elixir::kOverlapBlocks;
  }
  return whole_slots(problem, static_cast<double>(blocks * chunk_elements));
}

/// Chunks in the order of use go to the GPU, parameters and optimizer state together, while they
/// fit; returns what is left of `free` elements.
double place_greedily(Plan& plan, const Problem& problem, double free) {
  const std::vector<UnitLayout> layouts = layout_units(problem.architecture, plan);
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    std::vector<Placement> placements;
    for (const Chunk& chunk : layouts[i].chunks) {
      const double need = elixir::state_elements(problem.dtype) *
                          static_cast<double>(chunk.shard_elements(problem.num_gpus));
      const bool on_gpu = need <= free;
      if (on_gpu) free -= need;
      placements.push_back(on_gpu ? kAllOnGpu : kAllOnHost);
    }
    place_chunks(plan.units[i], placements);
  }
  return free;
}

}  // namespace

Plan elixir_plan(const Profile& profile, const Platform& platform, const PlanRequest& request,
                 const BatchSplit& batch, int num_recompute) {
  const auto all_on_host = [&](std::int64_t chunk_elements) {
    Plan plan = uniform_plan("elixir", profile, request, batch, chunk_elements, Sharding::Sharded,
                             kAllOnHost);
    recompute_leading(plan, num_recompute);
    plan.prefetch_depth = elixir::kPrefetchDepth;
    return plan;
  };
  const Program lean = lower(profile, all_on_host(largest_unit_elements(profile.architecture)));
  const Problem problem = make_problem(profile, platform, request, lean);

  Plan plan = all_on_host(search_chunk_elements(problem));
  plan.cache_slots = first_cache_slots(problem, plan.chunk_elements);
  const auto cache_elements =
      static_cast<double>(plan.cache_slots) * static_cast<double>(problem.unit_elements);
  const double left =
      place_greedily(plan, problem, std::max(0.0, problem.capacity - cache_elements));
  plan.cache_slots = whole_slots(problem, cache_elements + left);
  return plan;
}

}  // namespace athanor
