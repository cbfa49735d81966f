// SPDX-License-Identifier: Apache-2.0
// The space that the tuner searches, as explicit lists, and its enumeration.
#pragma once

#include "sim/policy/plan_builder.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace athanor {

/// One value per choice. Units are counted in execution order over all units of the architecture.
struct Candidate {
  BatchSplit batch;
  Sharding sharding = Sharding::Replicated;
  std::int64_t chunk_elements = 1;
  int recompute_units = 0;         ///< leading units that recompute
  int offload_units = 0;           ///< of these, leading ones whose outputs go to the host
  int leading_gpu_optimizer = 0;   ///< leading units whose optimizer state stays on the GPU
  int trailing_gpu_optimizer = 0;  ///< and trailing ones
  int trailing_nvme_optimizer =
      0;                         ///< of those not on the GPU, trailing ones whose state is on NVMe
  bool nvme_parameters = false;  ///< of these, parameters too where they are off the GPU
  int leading_gpu_parameters = 0;   ///< the same for parameters; wherever the optimizer state is on
  int trailing_gpu_parameters = 0;  ///< the GPU, the parameters are too
  int cache_slots = 2;
  int prefetch_depth = 1;
  int gradient_buffers = 2;
  int adam_threads = 1;
  int gpu_adam_units = 0;  ///< leading units whose state, where in host memory, the GPU updates
  int late_updates = 0;    ///< leading units that the CPU updates after backward
  bool speculate = false;  ///< where the request clips: Clipping::Speculate instead of Wait
  auto operator<=>(const Candidate&) const = default;
};

/// Values to try for each choice; the space is their product, less what is_sensible rejects and
/// what normal_form (candidate_groups.hpp) shows to be the same. Every list needs at least one
/// value.
struct SearchSpace {
  std::vector<BatchSplit> batches;
  std::vector<Sharding> shardings;
  std::vector<std::int64_t> chunk_elements;
  std::vector<int> recompute_units, offload_units;
  std::vector<int> leading_gpu_optimizer, trailing_gpu_optimizer, trailing_nvme_optimizer;
  std::vector<bool> nvme_parameters{false};
  std::vector<int> leading_gpu_parameters, trailing_gpu_parameters;
  std::vector<int> cache_slots;
  std::vector<int> prefetch_depths;
  std::vector<int> gradient_buffers;
  std::vector<int> adam_threads;
  std::vector<int> gpu_adam_units{0};
  std::vector<int> late_updates{0};  ///< never together with gpu_adam_units
  /// Late updates, and the GPU's of state in host memory, are tried where a step leaves the CPU at
  /// most so long for each element, by the bound of the group: where it leaves more, all but slow
  /// hosts keep up. Whatever the CPU's own speed, or a faster one would lose plans that a slower
  /// one has.
  Seconds max_cpu_seconds_per_element = std::numeric_limits<Seconds>::infinity();
  std::vector<bool> speculate{false};
  bool clips = false;  ///< what does not speculate waits for the norm: all its updates are late

  /// Size of the product, before anything is left out.
  [[nodiscard]] std::int64_t num_combinations() const noexcept;
  /// Throws InputError where a list is empty or holds a value out of range.
  void validate() const;
};

/// Plans that cover every choice, more than a hundred thousand for a large model: what `auto`
/// searches. NVMe is among the choices where the request gives some of it.
[[nodiscard]] SearchSpace default_search_space(const Profile& profile, const Platform& platform,
                                               const PlanRequest& request);

/// Whether the candidate is a plan, and not one that another beats in every respect: the prefetch
/// depth is below the number of slots, one GPU does not shard what stays on it, and several do not
/// repeat the same update on the CPU.
[[nodiscard]] bool is_sensible(const Candidate& candidate, int num_gpus, int num_units);

/// The plan that a candidate stands for, named "auto".
[[nodiscard]] Plan make_plan(const Candidate& candidate, const Profile& profile,
                             const PlanRequest& request);

}  // namespace athanor
