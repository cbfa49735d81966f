// SPDX-License-Identifier: Apache-2.0
// Work of each lane in a step of a candidate. Internal to Estimator.
#pragma once

#include "sim/search/estimate.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace athanor {

/// Work of the lanes of one rank.
struct Estimator::LaneWork {
  /// Seconds by kind of work. `busy`: the whole step. `step_boundary`: work that must fall between
  /// the start of the last group's backward and the end of the first forward through all units in
  /// the next step. Its parts `before_barrier` and `after_barrier` must end before, or start after,
  /// the start of the forward at the update barrier. Where gradients are clipped, the parts
  /// `before_norm` and `after_norm` of `before_barrier` must end before, or start after, the end of
  /// the norm. `inner_micro_batches`: work that must fall into the rest of the step. Its parts
  /// `inner_forward` and `inner_backward` must fall into passes forward, or backward, over all
  /// units. `inner_drains` and `last_drains` are the parts of these passes, and of the last
  /// group's, that must end before the backward of the leading units with state on the device. Only
  /// `busy` includes phases of units.
  WorkValues busy{}, step_boundary{}, before_barrier{}, after_barrier{}, inner_micro_batches{};
  WorkValues before_norm{}, after_norm{}, inner_forward{}, inner_backward{};
  WorkValues inner_drains{}, last_drains{};
  std::array<std::int64_t, kNumLanes> operations{};
  Seconds updates_after_norm = 0;  ///< CPU work between the norm and the next forward
  Seconds late = 0;                ///< late updates
  /// Copies of gradients to the host during which the device can only recompute: of the first
  /// micro-batch, and of each later one. None where micro-batches are in groups.
  Seconds first_drains = 0, later_drains = 0;
  /// Copy of the last unit's sum to the host, and its last chunk's square sum there. None where
  /// gradients are not added up.
  Seconds last_copied = 0, last_squared = 0;
  Seconds last_fetched = 0;  ///< copy to the device of the chunk that the CPU updates last
  /// Work before the update barrier where nothing is clipped: what must end before the last
  /// backward of the unit whose gradient the CPU takes last does; and what lies between the end of
  /// that and the forward at the barrier, of that unit and of the barrier's.
  struct Tail {
    int unit = -1;  ///< Estimator::last_gradient_unit(); -1: gradients are clipped, or no barrier
    WorkValues before{};
    ChunkSum reduced, added, copied;        ///< the gradient
    ChunkSum updated, published, gathered;  ///< parameters; `updated` only if not late
    bool adds = false;                      ///< the copy adds to sums in host memory
  };
  Tail tail;
  Seconds streamed = 0;          ///< reads of state that streams through the device
  int update_barrier_unit = -1;  ///< Estimator::update_barrier_unit()

  /// Number of times that an operation runs, by part of the step.
  struct Times {
    std::int64_t before_norm = 0, after_norm = 0;  ///< and before the barrier
    std::int64_t last_drains = 0;                  ///< before the norm, too
    std::int64_t before_barrier = 0;               ///< either side of the norm
    std::int64_t after_barrier = 0;
    std::int64_t step_boundary = 0;  ///< either side of the barrier
    std::int64_t inner_forward = 0, inner_backward = 0;
    std::int64_t inner_drains = 0;         ///< in passes backward, too
    std::int64_t inner_micro_batches = 0;  ///< in passes of either direction
    std::int64_t anywhere = 0;
    [[nodiscard]] std::int64_t all_before_barrier() const noexcept {
      return last_drains + before_norm + after_norm + before_barrier;
    }
    [[nodiscard]] std::int64_t at_boundary() const noexcept {
      return all_before_barrier() + after_barrier + step_boundary;
    }
    [[nodiscard]] std::int64_t all_inner() const noexcept {
      return inner_forward + inner_backward + inner_drains + inner_micro_batches;
    }
    [[nodiscard]] std::int64_t all() const noexcept {
      return at_boundary() + all_inner() + anywhere;
    }
  };
  /// Least fills of `units` into `slots`: all in the first pass over them, and in every later pass
  /// those without a slot at its start. `below` of the units come before the update barrier.
  static Times fills(int units, int below, int slots, std::int64_t groups) {
    const std::int64_t without = std::max(0, units - slots);
    const int after_barrier = std::max(0, units - below - slots);
    return {.before_norm = without,
            .after_norm = below,
            .after_barrier = after_barrier,
            .step_boundary = units - below - after_barrier,
            .inner_forward = (groups - 1) * without,
            .inner_backward = (groups - 1) * without};
  }
  /// Gradients that leave their buffers in `times` inner micro-batches. Those that are in buffers
  /// after the last backward that makes any may stay there during the next forward, and after the
  /// last of them until the step boundary.
  static Times drains(int units, int buffers, std::int64_t times) {
    const std::int64_t late = std::min<std::int64_t>({units, buffers, times * units});
    const std::int64_t drained = times * std::max(0, units - buffers);
    return {.inner_drains = drained,
            .inner_micro_batches = times * units - late - drained,
            .anywhere = late};
  }
  /// Likewise in `times` micro-batches of the last group, before the norm.
  static Times last_drains_of(int units, int buffers, std::int64_t times) {
    const std::int64_t drained = times * std::max(0, units - buffers);
    return {.before_norm = times * units - drained, .last_drains = drained};
  }

  void add(Lane lane, bool adds, const ChunkSum& unit, const Times& times) {
    const std::size_t index = work_index(lane, adds);
    busy[index] += static_cast<double>(times.all()) * unit.seconds;
    step_boundary[index] += static_cast<double>(times.at_boundary()) * unit.seconds;
    before_norm[index] += static_cast<double>(times.before_norm + times.last_drains) * unit.seconds;
    after_norm[index] += static_cast<double>(times.after_norm) * unit.seconds;
    before_barrier[index] += static_cast<double>(times.all_before_barrier()) * unit.seconds;
    after_barrier[index] += static_cast<double>(times.after_barrier) * unit.seconds;
    inner_micro_batches[index] += static_cast<double>(times.all_inner()) * unit.seconds;
    inner_forward[index] += static_cast<double>(times.inner_forward) * unit.seconds;
    inner_backward[index] +=
        static_cast<double>(times.inner_backward + times.inner_drains) * unit.seconds;
    operations[lane_index(lane)] += times.all() * unit.operations;
  }
};

/// Work that the units of one class add.
struct Estimator::ClassWork {
  Estimator& estimator;
  const Candidate& candidate_of_all;
  const Candidate& candidate;  ///< how the class is treated
  SearchLevel level;
  std::size_t unit_class;
  Placed placed;
  LaneWork& lanes;
  ChunkSums& sums;
  int units = estimator.classes_[unit_class].units;
  bool several = estimator.problem_.request.num_gpus > 1;  ///< ranks

  void add_fetches();
  void add_gradients();
  void add_sums();
  void add_drains();
  void add_adam();
  void add_state();
  void add_parameters();
  void add_gathers();
  /// Adds to `work` what must end before the backward of the units below `first` in `groups`
  /// groups, the first of the step's among them or not.
  void add_drained(WorkValues& drained, int first, std::int64_t groups, bool has_first);
  void add_update_tail();

 private:
  void add_tails();
  [[nodiscard]] bool has(std::size_t unit) const {
    const auto index = static_cast<int>(unit);
    return estimator.classes_[unit_class].members(index, index + 1) > 0;
  }
  void add(const ChunkWork& work, const LaneWork::Times& times);
  [[nodiscard]] ChunkSum sum(const ChunkWork& work);
  [[nodiscard]] ChunkWork grad_copy() const;
  [[nodiscard]] LaneWork::Times update_order(int published) const;
  [[nodiscard]] int last_drained(int first, bool of_host) const;
};

}  // namespace athanor
