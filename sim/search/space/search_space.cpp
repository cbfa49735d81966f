// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/search_space.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/cache_slots.hpp"
#include "sim/model/language_models.hpp"
#include "sim/policy/cuda_graphs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>

namespace athanor {
namespace {

template <typename T>
void require_values(const Choice<T>& choice, const std::vector<T>& values) {
  const std::string where = fmt::format("search space:{}", choice.name);
  if (values.empty()) throw InputError(where, "the list is empty", "Give at least one value.");
  if constexpr (std::is_integral_v<T>) {
    const T smallest = *std::min_element(values.begin(), values.end());
    if (smallest < choice.lowest) {
      throw InputError(where, fmt::format("{} is out of range", smallest),
                       fmt::format("Use {} or more.", choice.lowest));
    }
  }
}

bool is_covered(int unit, int leading, int trailing, int num_units) {
  return unit < leading || unit >= num_units - trailing;
}

/// 0, 1/parts .. parts/parts of `whole`, each once.
std::vector<int> fractions(int whole, int parts) {
  std::set<int> values;
  for (int i = 0; i <= parts; ++i) values.insert(whole * i / parts);
  return {values.begin(), values.end()};
}

std::vector<int> every_count(int whole) { return fractions(whole, whole); }

std::vector<int> up_to(std::set<int> values, int highest) {
  values.erase(values.upper_bound(highest), values.end());
  return {values.begin(), values.end()};
}

/// Leaves the plans that can take snapshots: no state in files, and none that streams. Those of
/// every step but copies need all of it in host memory, and those of some steps on the GPU.
void keep_state_in_memory(SearchSpace& space, int snapshot_every, int num_units) {
  space.trailing_nvme_optimizer = space.gpu_adam_units = {0};
  space.nvme_parameters = {false};
  if (snapshot_every > 1) {
    space.leading_gpu_optimizer = space.leading_gpu_parameters = {num_units};
    space.trailing_gpu_optimizer = space.late_updates = {0};
    space.gradient_rings = {0};
    space.attention_on_gpu = space.speculate = {false};
  }
  if (std::ranges::count(space.snapshots, Snapshot::Copy) > 0) return;
  space.leading_gpu_optimizer = space.trailing_gpu_optimizer = {0};
  space.attention_on_gpu = {false};
}

/// Ways to take the snapshots that the request asks for.
std::vector<Snapshot> snapshots_of(const PlanRequest& request) {
  if (!request.tries_snapshots) return {request.snapshot};
  std::vector<Snapshot> ways{Snapshot::Versions, Snapshot::Copy};
  if (request.snapshot == Snapshot::Redo) ways.insert(ways.begin(), Snapshot::Redo);
  return ways;
}

}  // namespace

void SearchSpace::validate() const {
  for_each_choice([&](const auto& choice) { require_values(choice, this->*choice.values); });
  if (std::ranges::count(gradient_rings, 0) == 0) {
    throw InputError("search space:gradient_rings", "0 is not among them",
                     "Add it: a plan whose gradients wait has no ring.");
  }
}

SearchSpace default_search_space(const TuningProblem& problem, bool for_front) {
  const Profile& profile = problem.profile;
  const Platform& platform = problem.platform;
  const PlanRequest& request = problem.request;
  const Architecture& architecture = profile.architecture;
  const int num_units = static_cast<int>(architecture.units.size());
  const std::int64_t whole = largest_unit_elements(architecture);
  const bool several = request.num_gpus > 1;
  const bool can_offload = !platform.cpu_adam.empty();
  SearchSpace space;
  space.batches = with_groups(batch_splits(request, profile), architecture);
  space.shardings = {Sharding::Replicated, Sharding::Sharded};
  if (several) space.shardings.push_back(Sharding::OptimizerSharded);
  for (const std::int64_t cuts : {1, 2, 4, 8, 16}) {
    space.chunk_elements.push_back(std::max<std::int64_t>(1, whole / cuts));
  }
  space.recompute_units = for_front ? fractions(num_units, 8) : every_count(num_units);
  space.offload_units = {0, num_units};
  space.leading_gpu_optimizer = can_offload ? fractions(num_units, 8) : std::vector{num_units};
  space.trailing_gpu_optimizer = {0, num_units / 4};
  const bool may_use_nvme = request.limits.nvme > 0 && has_nvme(platform);
  space.trailing_nvme_optimizer = may_use_nvme ? fractions(num_units, 4) : std::vector{0};
  if (may_use_nvme) space.nvme_parameters.push_back(true);
  space.leading_gpu_parameters = for_front ? fractions(num_units, 4) : every_count(num_units);
  space.trailing_gpu_parameters = {0};
  space.prefetch_depths = {1, 2};
  if (can_offload && has_attention_units(architecture)) space.attention_on_gpu.push_back(true);
  space.cache_slots = up_to({least_cache_slots(architecture, 1), 2, 3, 4, 8},
                            std::max(2, largest_class_size(architecture)));
  space.gradient_buffers = up_to({1, 2}, largest_class_size(architecture));
  const bool may_stage = can_offload && request.clipping == Clipping::None;
  if (may_stage) space.gradient_rings = for_front ? std::vector{0, 8} : std::vector{0, 32, 8};
  // Fewer threads leave copies more of the host's memory bandwidth. More cores only add values.
  space.adam_threads = adam_thread_choices(request, platform);
  space.clips = request.clipping != Clipping::None;
  space.fill_memory = !for_front;
  const bool may_speculate =
      request.clipping != Clipping::None && profile.dtype != DataType::Float32;
  if (may_speculate && can_offload) space.speculate.push_back(true);
  if (can_offload) {
    space.gpu_adam_units = fractions(num_units, 4);
    space.late_updates = fractions(num_units, 8);
    std::erase_if(space.late_updates, [=](int units) {
      return units == num_units || (units > 0 && 2 * units < num_units - 1);
    });
  }
  space.snapshots = snapshots_of(request);
  if (space.snapshots != std::vector{Snapshot::None}) {
    keep_state_in_memory(space, request.snapshot_every, num_units);
  }
  constexpr Seconds kMaxSeconds = 1e-9;  // 28 GB/s for each rank at 28 bytes an element
  space.max_cpu_seconds_per_element = kMaxSeconds;
  return space;
}

std::vector<BatchSplit> with_groups(const std::vector<BatchSplit>& splits,
                                    const Architecture& architecture) {
  const bool borrows = std::ranges::any_of(architecture.units,
                                           [](const Unit& unit) { return !unit.borrows.empty(); });
  if (borrows) return splits;
  std::vector<BatchSplit> grouped;
  for (BatchSplit split : splits) {
    for (split.group = 1; split.group < split.accumulation; split.group *= 2) {
      if (split.accumulation % split.group == 0) grouped.push_back(split);
    }
    split.group = split.accumulation;
    grouped.push_back(split);
  }
  return grouped;
}

bool is_sensible(const Candidate& c, int num_gpus, const Architecture& architecture) {
  const int num_units = static_cast<int>(architecture.units.size());
  if (c.batch.group > 1 && c.sharding != Sharding::Sharded) return false;
  const bool needs_host = c.snapshot != Snapshot::None && c.snapshot != Snapshot::Copy;
  if (needs_host && keeps_state_on_gpu(c)) return false;
  const bool all_parameters_on_gpu =
      std::max(c.leading_gpu_parameters, c.leading_gpu_optimizer) +
          std::max(c.trailing_gpu_parameters, c.trailing_gpu_optimizer) >=
      num_units;
  const bool all_optimizer_on_gpu = c.leading_gpu_optimizer + c.trailing_gpu_optimizer >= num_units;
  switch (c.sharding) {
    case Sharding::Sharded:
      return least_cache_slots(architecture, c.prefetch_depth) <= c.cache_slots &&
             (num_gpus > 1 || !all_parameters_on_gpu);
    case Sharding::OptimizerSharded:
      return num_gpus > 1;
    case Sharding::Replicated:
      return num_gpus == 1 || all_optimizer_on_gpu;
  }
  return false;
}

bool keeps_state_on_gpu(const Candidate& c) noexcept {
  return c.leading_gpu_optimizer + c.trailing_gpu_optimizer > 0 || c.attention_on_gpu;
}

bool has_attention_units(const Architecture& architecture) noexcept {
  return std::ranges::any_of(architecture.units, [](const Unit& unit) {
    return is_attention(unit.unit_class) && !unit.parameters.empty();
  });
}

Candidate for_class(const Candidate& candidate, const std::string& unit_class, int num_gpus,
                    int num_units) {
  Candidate c = candidate;
  if (!c.attention_on_gpu || !is_attention(unit_class)) return c;
  c.sharding = num_gpus > 1 ? Sharding::OptimizerSharded : Sharding::Replicated;
  c.leading_gpu_optimizer = c.leading_gpu_parameters = num_units;
  return c;
}

Plan make_plan(const Candidate& candidate, const Profile& profile, const PlanRequest& request) {
  Plan plan = uniform_plan("auto", profile, request, candidate.batch, candidate.chunk_elements,
                           candidate.sharding, kAllOnHost);
  plan.cache_slots = candidate.cache_slots;
  plan.prefetch_depth = candidate.prefetch_depth;
  plan.gradient_buffers = candidate.gradient_buffers;
  plan.gradient_ring = candidate.gradient_ring;
  plan.cpu_adam_threads = candidate.adam_threads;
  plan.late_updates = candidate.late_updates;
  plan.snapshot = candidate.snapshot;
  plan.cuda_graphs = takes_graphs(profile, request, candidate.batch.micro_batch);
  if (candidate.speculate) plan.clipping = Clipping::Speculate;
  recompute_leading(plan, candidate.recompute_units, candidate.offload_units);
  const int num_units = static_cast<int>(plan.units.size());
  for (int i = 0; i < num_units; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const Candidate c = for_class(candidate, profile.architecture.units[index].unit_class,
                                  request.num_gpus, num_units);
    plan.units[index].sharding = c.sharding;
    for (ChunkRun& run : plan.units[index].chunks) {
      const bool optimizer =
          is_covered(i, c.leading_gpu_optimizer, c.trailing_gpu_optimizer, num_units);
      const bool parameters =
          optimizer || c.sharding != Sharding::Sharded ||
          is_covered(i, c.leading_gpu_parameters, c.trailing_gpu_parameters, num_units);
      const bool in_file = i >= num_units - c.trailing_nvme_optimizer;
      run.optimizer = optimizer ? Home::Gpu : in_file ? Home::Nvme : Home::Host;
      run.parameters = parameters                     ? Home::Gpu
                       : in_file && c.nvme_parameters ? Home::Nvme
                                                      : Home::Host;
      run.gpu_adam = run.optimizer == Home::Host && i < c.gpu_adam_units;
    }
  }
  return plan;
}

}  // namespace athanor
