// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/search_space.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/model/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

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

/// Leading and trailing counts that cover all `num_units` are the same as all leading.
void normalise_cover(int& leading, int& trailing, int num_units) {
  leading = std::min(leading, num_units);
  trailing = std::min(trailing, num_units);
  if (leading + trailing < num_units) return;
  leading = num_units;
  trailing = 0;
}

void normalise_placement(Candidate& c, int num_units) {
  c.leading_gpu_parameters = std::max(c.leading_gpu_parameters, c.leading_gpu_optimizer);
  c.trailing_gpu_parameters = std::max(c.trailing_gpu_parameters, c.trailing_gpu_optimizer);
  if (c.sharding != Sharding::Sharded) c.leading_gpu_parameters = num_units;
  normalise_cover(c.leading_gpu_optimizer, c.trailing_gpu_optimizer, num_units);
  normalise_cover(c.leading_gpu_parameters, c.trailing_gpu_parameters, num_units);
  // Counted from the end, so that those on the GPU are among them.
  c.trailing_nvme_optimizer =
      c.trailing_nvme_optimizer <= c.trailing_gpu_optimizer
          ? 0
          : std::min(c.trailing_nvme_optimizer, num_units - c.leading_gpu_optimizer);
  const int first_in_file =
      std::max(c.leading_gpu_parameters, num_units - c.trailing_nvme_optimizer);
  if (first_in_file >= num_units - c.trailing_gpu_parameters) c.nvme_parameters = false;
}

/// What normal_form needs to know of an architecture.
class NormalForm {
 public:
  NormalForm(const Architecture& architecture, int num_gpus)
      : num_units_(static_cast<int>(architecture.units.size())),
        class_size_(largest_class_size(architecture)),
        cut_(num_gpus * kParameterAlignment),
        largest_chunk_(round_up(largest_unit_elements(architecture), cut_)) {}

  [[nodiscard]] int num_units() const noexcept { return num_units_; }

  [[nodiscard]] Candidate of(const Candidate& candidate) const {
    Candidate c = candidate;
    c.chunk_elements = std::min(round_up(c.chunk_elements, cut_), largest_chunk_);
    c.recompute_units = std::min(c.recompute_units, num_units_ - 1);
    c.offload_units =
        std::clamp(std::min(c.recompute_units - 1, num_units_ - 3), 0, c.offload_units);
    c.gradient_buffers = std::min(c.gradient_buffers, class_size_);
    normalise_placement(c, num_units_);
    if (c.leading_gpu_optimizer == num_units_) c.adam_threads = 1;
    normalise_updates(c);
    if (c.sharding == Sharding::Sharded) {
      c.cache_slots = std::max(std::min(c.cache_slots, class_size_), c.prefetch_depth + 1);
    } else {
      c.cache_slots = 1;
      c.prefetch_depth = 0;
    }
    return c;
  }

 private:
  void normalise_updates(Candidate& c) const {
    const int in_memory =
        num_units_ - std::max(c.trailing_gpu_optimizer, c.trailing_nvme_optimizer);
    c.gpu_adam_units = std::min(c.gpu_adam_units, in_memory);
    if (c.gpu_adam_units <= c.leading_gpu_optimizer) c.gpu_adam_units = 0;
    const int first_on_cpu = std::max(c.leading_gpu_optimizer, c.gpu_adam_units);
    c.late_updates = std::min(c.late_updates, num_units_ - c.trailing_gpu_optimizer);
    if (c.late_updates <= first_on_cpu) c.late_updates = 0;
    if (std::max(first_on_cpu, c.late_updates) >= in_memory) c.speculate = false;
  }

  int num_units_, class_size_;
  std::int64_t cut_, largest_chunk_;
};

/// Boost's hash_combine over all choices.
struct CandidateHash {
  std::size_t operator()(const Candidate& c) const noexcept {
    std::size_t hash = 0;
    const auto add = [&hash](auto value) {
      constexpr std::size_t kGolden = 0x9e3779b97f4a7c15;
      hash ^= static_cast<std::size_t>(value) + kGolden + (hash << 6U) + (hash >> 2U);
    };
    add(c.batch.micro_batch);
    add(c.sharding);
    add(c.chunk_elements);
    add(c.recompute_units);
    add(c.offload_units);
    add(c.leading_gpu_optimizer);
    add(c.trailing_gpu_optimizer);
    add(c.trailing_nvme_optimizer);
    add(c.nvme_parameters);
    add(c.leading_gpu_parameters);
    add(c.trailing_gpu_parameters);
    add(c.cache_slots);
    add(c.prefetch_depth);
    add(c.gradient_buffers);
    add(c.adam_threads);
    add(c.gpu_adam_units);
    add(c.late_updates);
    add(c.speculate);
    return hash;
  }
};

bool is_covered(int unit, int leading, int trailing, int num_units) {
  return unit < leading || unit >= num_units - trailing;
}

/// Calls `visit` for each value of one list, assigned to `member`.
template <typename T, typename Visit>
void for_each_value(Candidate& candidate, T Candidate::* member, const std::vector<T>& values,
                    const Visit& visit) {
  for (const T& value : values) {
    candidate.*member = value;
    visit();
  }
}

/// The product of all lists but those of for_each_update; the first varies slowest.
template <typename Visit>
void for_each_combination(const SearchSpace& s, const Visit& visit) {
  using C = Candidate;
  Candidate c;
  const auto placements = [&](const auto& inner) {
    for_each_value(c, &C::leading_gpu_optimizer, s.leading_gpu_optimizer, [&] {
      for_each_value(c, &C::trailing_gpu_optimizer, s.trailing_gpu_optimizer, [&] {
        for_each_value(c, &C::trailing_nvme_optimizer, s.trailing_nvme_optimizer, [&] {
          for_each_value(c, &C::nvme_parameters, s.nvme_parameters, [&] {
            for_each_value(c, &C::leading_gpu_parameters, s.leading_gpu_parameters, [&] {
              for_each_value(c, &C::trailing_gpu_parameters, s.trailing_gpu_parameters, inner);
            });
          });
        });
      });
    });
  };
  const auto pools = [&] {
    for_each_value(c, &C::cache_slots, s.cache_slots, [&] {
      for_each_value(c, &C::prefetch_depth, s.prefetch_depths, [&] {
        for_each_value(c, &C::gradient_buffers, s.gradient_buffers, [&] {
          for_each_value(c, &C::adam_threads, s.adam_threads,
                         [&] { for_each_value(c, &C::speculate, s.speculate, [&] { visit(c); }); });
        });
      });
    });
  };
  for_each_value(c, &C::batch, s.batches, [&] {
    for_each_value(c, &C::sharding, s.shardings, [&] {
      for_each_value(c, &C::chunk_elements, s.chunk_elements, [&] {
        for_each_value(c, &C::recompute_units, s.recompute_units, [&] {
          for_each_value(c, &C::offload_units, s.offload_units, [&] { placements(pools); });
        });
      });
    });
  });
}

/// `candidate` with every combination of what is tried where updates are slow.
template <typename Visit>
void for_each_update(const SearchSpace& s, Candidate candidate, const Visit& visit) {
  using C = Candidate;
  for_each_value(candidate, &C::gpu_adam_units, s.gpu_adam_units, [&] {
    for_each_value(candidate, &C::late_updates, s.late_updates, [&] { visit(candidate); });
  });
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
  space.adam_threads = {adam_thread_choices(request, platform).back()};
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
  constexpr double kMostOfTheStep = 0.7;
  space.slow_updates_from = kMostOfTheStep;
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

Candidate normal_form(const Candidate& candidate, const Architecture& architecture, int num_gpus) {
  return NormalForm(architecture, num_gpus).of(candidate);
}

void enumerate(const SearchSpace& space, const Architecture& architecture, int num_gpus,
               const std::function<void(const Candidate&)>& visit,
               const std::function<bool(const Candidate&)>& updates_are_slow) {
  space.validate();
  const NormalForm normal_form(architecture, num_gpus);
  std::unordered_set<Candidate, CandidateHash> seen;
  for_each_combination(space, [&](const Candidate& combination) {
    if (!is_sensible(combination, num_gpus, normal_form.num_units())) return;
    const Candidate plain = normal_form.of(combination);
    if (!seen.insert(plain).second) return;
    if (updates_are_slow && !updates_are_slow(plain)) return visit(plain);
    bool is_visited = false;
    for_each_update(space, plain, [&](const Candidate& candidate) {
      const Candidate normal = normal_form.of(candidate);
      if (space.clips && !normal.speculate && normal.late_updates > 0) return;
      const bool is_new =
          normal == plain ? !std::exchange(is_visited, true) : seen.insert(normal).second;
      if (is_new) visit(normal);
    });
  });
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
