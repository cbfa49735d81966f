// SPDX-License-Identifier: Apache-2.0
// The choices of a plan, the lists of values that the tuner tries, and the plan of a candidate.
#pragma once

#include "sim/policy/plan_builder.hpp"
#include "sim/policy/tuning_problem.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace athanor {

/// One value for each choice. Units count in execution order, all units of the architecture.
struct Candidate {
  BatchSplit batch;
  Sharding sharding = Sharding::Replicated;
  std::int64_t chunk_elements = 1;
  int recompute_units = 0;         ///< leading units that recompute
  int offload_units = 0;           ///< leading ones among them whose outputs go to the host
  int leading_gpu_optimizer = 0;   ///< leading units whose optimizer state stays on the GPU
  int trailing_gpu_optimizer = 0;  ///< trailing units likewise
  /// Trailing units whose state is on NVMe, unless it is on the GPU.
  int trailing_nvme_optimizer = 0;
  bool nvme_parameters = false;  ///< their parameters are on NVMe too, unless on the GPU
  /// Attention is whole on the GPU with its optimizer state, in models whose blocks are split: it
  /// is not fetched and takes no slot. Several GPUs divide its optimizer state. The other choices
  /// are about the other units then.
  bool attention_on_gpu = false;
  Snapshot snapshot = Snapshot::None;
  /// Leading and trailing units whose parameters stay on the GPU, besides those whose state does.
  int leading_gpu_parameters = 0, trailing_gpu_parameters = 0;
  int cache_slots = 2;
  int prefetch_depth = 1;
  int gradient_buffers = 2;
  int gradient_ring = 0;
  int adam_threads = 1;
  int gpu_adam_units = 0;  ///< leading units whose state, where in host memory, the GPU updates
  int late_updates = 0;    ///< leading units that the CPU updates after backward
  bool speculate = false;  ///< where the request clips: Clipping::Speculate instead of Wait
  auto operator<=>(const Candidate&) const = default;
};

/// Values to try for each choice. The space is their product, without candidates that is_sensible
/// rejects or that normal_form (candidate_groups.hpp) shows to be the same. Every list needs a
/// value.
struct SearchSpace {
  std::vector<BatchSplit> batches;
  std::vector<Sharding> shardings;
  std::vector<std::int64_t> chunk_elements;
  std::vector<int> recompute_units, offload_units;
  std::vector<int> leading_gpu_optimizer, trailing_gpu_optimizer, trailing_nvme_optimizer;
  std::vector<bool> nvme_parameters{false};
  std::vector<bool> attention_on_gpu{false};
  std::vector<Snapshot> snapshots{Snapshot::None};
  std::vector<int> leading_gpu_parameters, trailing_gpu_parameters;
  std::vector<int> cache_slots;
  std::vector<int> prefetch_depths;
  std::vector<int> gradient_buffers;
  std::vector<int> gradient_rings{0};  ///< 0 is among them; others are tried where gradients are
                                       ///< neither added up nor clipped
  std::vector<int> adam_threads;
  std::vector<int> gpu_adam_units{0};
  std::vector<int> late_updates{0};  ///< never together with gpu_adam_units
  /// Late updates and GPU updates of host-resident state are tried only if the group's lower bound
  /// leaves the CPU at most this long per element: with more time, all but slow hosts keep up.
  /// Independent of the CPU's measured speed, so that a faster CPU never removes plans.
  Seconds max_cpu_seconds_per_element = std::numeric_limits<Seconds>::infinity();
  std::vector<bool> speculate{false};
  bool clips = false;  ///< updates that do not speculate wait for the norm, so all are late
  /// Fills memory. To the listed counts of leading_gpu_optimizer come, between the lowest and the
  /// highest of them, the fewest and the most with which a combination of the other choices fits.
  /// Candidates that leave memory unused are skipped: one that differs only in recomputing no more
  /// units, in copying no more outputs to the host and in keeping no fewer parameters on the GPU
  /// fits too, or one whose gradient ring is larger or none.
  bool fill_memory = false;

  /// Throws InputError where a list is empty or holds a value out of range.
  void validate() const;
};

/// Choices that say nothing about the normal form of those in other groups.
enum class ChoiceGroup { Batch, Sharding, Chunks, Activations, Placement, Pools, Updates };

/// One choice: where a candidate has its value, and where a space lists the values to try.
template <typename T>
struct Choice {
  const char* name;
  ChoiceGroup group;
  T Candidate::* value;
  std::vector<T> SearchSpace::* values;
  T lowest;
};

template <typename T>
constexpr Choice<T> choice(const char* name, ChoiceGroup group, T Candidate::* value,
                           std::vector<T> SearchSpace::* values, std::type_identity_t<T> lowest) {
  return {name, group, value, values, lowest};
}

/// Every choice, in the order of reports. Validation, enumeration and JSON follow from it; a new
/// choice needs a row here, its values in default_search_space, its normal form, and its effect on
/// plans and estimates.
inline constexpr auto kChoices = [] {
  using enum ChoiceGroup;
  using C = Candidate;
  using S = SearchSpace;
  return std::tuple{
      choice("batch", Batch, &C::batch, &S::batches, {1, 1}),
      choice("sharding", ChoiceGroup::Sharding, &C::sharding, &S::shardings, {}),
      choice("chunk_elements", Chunks, &C::chunk_elements, &S::chunk_elements, 1),
      choice("recompute_units", Activations, &C::recompute_units, &S::recompute_units, 0),
      choice("offload_units", Activations, &C::offload_units, &S::offload_units, 0),
      choice("leading_gpu_optimizer", Placement, &C::leading_gpu_optimizer,
             &S::leading_gpu_optimizer, 0),
      choice("trailing_gpu_optimizer", Placement, &C::trailing_gpu_optimizer,
             &S::trailing_gpu_optimizer, 0),
      choice("trailing_nvme_optimizer", Placement, &C::trailing_nvme_optimizer,
             &S::trailing_nvme_optimizer, 0),
      choice("nvme_parameters", Placement, &C::nvme_parameters, &S::nvme_parameters, false),
      choice("attention_on_gpu", Placement, &C::attention_on_gpu, &S::attention_on_gpu, false),
      choice("snapshot", Placement, &C::snapshot, &S::snapshots, {}),
      choice("leading_gpu_parameters", Placement, &C::leading_gpu_parameters,
             &S::leading_gpu_parameters, 0),
      choice("trailing_gpu_parameters", Placement, &C::trailing_gpu_parameters,
             &S::trailing_gpu_parameters, 0),
      choice("cache_slots", Pools, &C::cache_slots, &S::cache_slots, 1),
      choice("prefetch_depth", Pools, &C::prefetch_depth, &S::prefetch_depths, 0),
      choice("gradient_buffers", Pools, &C::gradient_buffers, &S::gradient_buffers, 1),
      choice("gradient_ring", Pools, &C::gradient_ring, &S::gradient_rings, 0),
      choice("adam_threads", Updates, &C::adam_threads, &S::adam_threads, 1),
      choice("gpu_adam_units", Updates, &C::gpu_adam_units, &S::gpu_adam_units, 0),
      choice("late_updates", Updates, &C::late_updates, &S::late_updates, 0),
      choice("speculate", Updates, &C::speculate, &S::speculate, false)};
}();

/// Calls `visit(choice)` with every choice, in order.
template <typename Visit>
constexpr void for_each_choice(const Visit& visit) {
  std::apply([&](const auto&... each) { (visit(each), ...); }, kChoices);
}

/// Calls `visit` for each combination of values of the choices of one group, assigned to
/// `candidate`. The group's first choice varies slowest.
template <ChoiceGroup kGroup, std::size_t kIndex = 0, typename Visit>
void for_each_combination(const SearchSpace& space, Candidate& candidate, const Visit& visit) {
  if constexpr (kIndex == std::tuple_size_v<decltype(kChoices)>) {
    visit();
  } else if constexpr (std::get<kIndex>(kChoices).group != kGroup) {
    for_each_combination<kGroup, kIndex + 1>(space, candidate, visit);
  } else {
    constexpr auto kChoice = std::get<kIndex>(kChoices);
    for (const auto& value : space.*kChoice.values) {
      candidate.*kChoice.value = value;
      for_each_combination<kGroup, kIndex + 1>(space, candidate, visit);
    }
  }
}

/// Gives `to` the values that `from` has of the choices of one group.
template <ChoiceGroup kGroup>
void copy_choices(const Candidate& from, Candidate& to) {
  for_each_choice([&](const auto& choice) {
    if (choice.group == kGroup) to.*choice.value = from.*choice.value;
  });
}

/// The space that `auto` searches: every choice, more than a hundred thousand plans for a large
/// model. NVMe is among the choices if the request gives some.
/// A Pareto front also wants plans that leave memory unused: with `for_front` memory is not filled,
/// and fewer counts are listed.
[[nodiscard]] SearchSpace default_search_space(const TuningProblem& problem,
                                               bool for_front = false);

/// Returns `splits`, each whole and in groups of micro-batches: powers of two that divide the
/// accumulation, and all of it. Groups fetch a unit once instead of once for each micro-batch. Not
/// where a unit borrows parameters: a group would hold the gradients of all its members for it.
[[nodiscard]] std::vector<BatchSplit> with_groups(const std::vector<BatchSplit>& splits,
                                                  const Architecture& architecture);

/// Whether the candidate is a plan that no other dominates: its slots hold what it prefetches, one
/// GPU does not shard what stays on it, several GPUs do not repeat an
/// update on the CPU, micro-batches run in groups only where units are fetched, and state on the
/// GPU has no snapshots but copies.
[[nodiscard]] bool is_sensible(const Candidate& candidate, int num_gpus,
                               const Architecture& architecture);

/// Whether some unit's optimizer state stays on the GPU.
[[nodiscard]] bool keeps_state_on_gpu(const Candidate& candidate) noexcept;

/// Whether some unit of `architecture` is attention alone.
[[nodiscard]] bool has_attention_units(const Architecture& architecture) noexcept;

/// Returns the candidate that says how `unit_class` is treated: of attention that stays on the GPU,
/// all optimizer state is there and parameters are never fetched.
[[nodiscard]] Candidate for_class(const Candidate& candidate, const std::string& unit_class,
                                  int num_gpus, int num_units);

/// Returns the plan of a candidate, named "auto".
[[nodiscard]] Plan make_plan(const Candidate& candidate, const Profile& profile,
                             const PlanRequest& request);

}  // namespace athanor
