// SPDX-License-Identifier: Apache-2.0
#include "sim/search/search_space.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace athanor {
namespace {

template <typename T>
void require_values(const char* name, const std::vector<T>& values, T lowest) {
  const std::string where = fmt::format("search space:{}", name);
  if (values.empty()) throw InputError(where, "the list is empty", "Give at least one value.");
  const T smallest = *std::min_element(values.begin(), values.end());
  if (smallest < lowest) {
    throw InputError(where, fmt::format("{} is out of range", smallest),
                     fmt::format("Use {} or more.", lowest));
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

std::vector<int> up_to(std::set<int> values, int highest) {
  values.erase(values.upper_bound(highest), values.end());
  return {values.begin(), values.end()};
}

}  // namespace

std::int64_t SearchSpace::num_combinations() const noexcept {
  std::int64_t product = 1;
  for (const std::size_t size :
       {batches.size(), shardings.size(), chunk_elements.size(), recompute_units.size(),
        offload_units.size(), leading_gpu_optimizer.size(), trailing_gpu_optimizer.size(),
        trailing_nvme_optimizer.size(), nvme_parameters.size(), leading_gpu_parameters.size(),
        trailing_gpu_parameters.size(), cache_slots.size(), prefetch_depths.size(),
        gradient_buffers.size(), adam_threads.size(), gpu_adam_units.size(), late_updates.size(),
        speculate.size()}) {
    product *= static_cast<std::int64_t>(size);
  }
  return product;
}

void SearchSpace::validate() const {
  require_values<std::int64_t>("chunk_elements", chunk_elements, 1);
  require_values("recompute_units", recompute_units, 0);
  require_values("offload_units", offload_units, 0);
  require_values("leading_gpu_optimizer", leading_gpu_optimizer, 0);
  require_values("trailing_gpu_optimizer", trailing_gpu_optimizer, 0);
  require_values("trailing_nvme_optimizer", trailing_nvme_optimizer, 0);
  require_values("leading_gpu_parameters", leading_gpu_parameters, 0);
  require_values("trailing_gpu_parameters", trailing_gpu_parameters, 0);
  require_values("cache_slots", cache_slots, 1);
  require_values("prefetch_depths", prefetch_depths, 0);
  require_values("gradient_buffers", gradient_buffers, 1);
  require_values("adam_threads", adam_threads, 1);
  require_values("gpu_adam_units", gpu_adam_units, 0);
  require_values("late_updates", late_updates, 0);
  if (batches.empty() || shardings.empty() || nvme_parameters.empty() || speculate.empty()) {
    throw InputError("search space:batches, shardings, nvme_parameters, speculate",
                     "a list is empty", "Give at least one value.");
  }
}

SearchSpace default_search_space(const Profile& profile, const Platform& platform,
                                 const PlanRequest& request) {
  const Architecture& architecture = profile.architecture;
  const int num_units = static_cast<int>(architecture.units.size());
  const std::int64_t whole = largest_unit_elements(architecture);
  const bool several = request.num_gpus > 1;
  const bool can_offload = !platform.cpu_adam.empty();
  SearchSpace space;
  space.batches = batch_splits(request, profile);
  space.shardings = {Sharding::Replicated, Sharding::Sharded};
  if (several) space.shardings.push_back(Sharding::OptimizerSharded);
  for (const std::int64_t cuts : {1, 2, 4, 8, 16}) {
    space.chunk_elements.push_back(std::max<std::int64_t>(1, whole / cuts));
  }
  space.recompute_units = fractions(num_units, 8);
  space.offload_units = {0, num_units};
  space.leading_gpu_optimizer = can_offload ? fractions(num_units, 8) : std::vector{num_units};
  space.trailing_gpu_optimizer = {0, num_units / 4};
  const bool may_use_nvme = request.limits.nvme > 0 && has_nvme(platform);
  space.trailing_nvme_optimizer = may_use_nvme ? fractions(num_units, 4) : std::vector{0};
  if (may_use_nvme) space.nvme_parameters.push_back(true);
  space.leading_gpu_parameters = fractions(num_units, 4);
  space.trailing_gpu_parameters = {0};
  space.cache_slots = up_to({2, 3, 4, 8}, std::max(2, largest_class_size(architecture)));
  space.prefetch_depths = {1, 2};
  space.gradient_buffers = up_to({1, 2}, largest_class_size(architecture));
  // Fewer than the most leave copies more of the host's memory. More cores only add to these.
  space.adam_threads = adam_thread_choices(request, platform);
  space.clips = request.clipping != Clipping::None;
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
  constexpr Seconds kReordersWithin = 1e-9;  // 28 GB/s of each rank's, at 28 bytes an element
  space.max_cpu_seconds_per_element = kReordersWithin;
  return space;
}

bool is_sensible(const Candidate& c, int num_gpus, int num_units) {
  const bool all_parameters_on_gpu =
      std::max(c.leading_gpu_parameters, c.leading_gpu_optimizer) +
          std::max(c.trailing_gpu_parameters, c.trailing_gpu_optimizer) >=
      num_units;
  const bool all_optimizer_on_gpu = c.leading_gpu_optimizer + c.trailing_gpu_optimizer >= num_units;
  switch (c.sharding) {
    case Sharding::Sharded:
      return c.prefetch_depth < c.cache_slots && (num_gpus > 1 || !all_parameters_on_gpu);
    case Sharding::OptimizerSharded:
      return num_gpus > 1;
    case Sharding::Replicated:
      return num_gpus == 1 || all_optimizer_on_gpu;
  }
  return false;
}

Plan make_plan(const Candidate& c, const Profile& profile, const PlanRequest& request) {
  Plan plan =
      uniform_plan("auto", profile, request, c.batch, c.chunk_elements, c.sharding, kAllOnHost);
  plan.cache_slots = c.cache_slots;
  plan.prefetch_depth = c.prefetch_depth;
  plan.gradient_buffers = c.gradient_buffers;
  plan.cpu_adam_threads = c.adam_threads;
  plan.late_updates = c.late_updates;
  if (c.speculate) plan.clipping = Clipping::Speculate;
  recompute_leading(plan, c.recompute_units, c.offload_units);
  const int num_units = static_cast<int>(plan.units.size());
  for (int i = 0; i < num_units; ++i) {
    for (ChunkRun& run : plan.units[static_cast<std::size_t>(i)].chunks) {
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
