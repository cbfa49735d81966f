// SPDX-License-Identifier: Apache-2.0
// What the lanes have to do in a step of a candidate.
#pragma once

#include "sim/search/estimate.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace athanor {

/// What the lanes of one rank have to do.
struct Estimator::LaneWork {
  /// In a step; of that, certainly at its turn, which is from the last micro-batch's backward to
  /// the end of the next step's first forward, and certainly in its middle, which is the rest. Of
  /// the turn, certainly before forward of the gate, and after the start of that. All but the first
  /// without phases of units.
  LaneValues busy{}, step_boundary{}, before_barrier{}, after_barrier{}, inner_micro_batches{};
  std::array<std::int64_t, kNumLanes> operations{};
  Seconds after_norm = 0;  ///< of the CPU, between the norm and the next forward
  Seconds late = 0;        ///< late updates of the CPU
  /// Gradients of the first micro-batch, and of each later one, that go to the host while the
  /// device can only recompute.
  Seconds first_drains = 0, later_drains = 0;
  Seconds streamed = 0;          ///< reads of state that streams through the device
  int update_barrier_unit = -1;  ///< gate() of the candidate

  /// How often an operation runs.
  struct Times {
    std::int64_t before_barrier = 0, after_barrier = 0;
    std::int64_t step_boundary = 0;  ///< besides
    std::int64_t inner_micro_batches = 0, anywhere = 0;
    [[nodiscard]] std::int64_t at_turn() const noexcept {
      return before_barrier + after_barrier + step_boundary;
    }
    [[nodiscard]] std::int64_t all() const noexcept {
      return at_turn() + inner_micro_batches + anywhere;
    }
  };
  /// Units that are filled into `slots`, at least: all in the first pass over them, and in every
  /// later pass those for which there was no slot at its start. Of them `below` the gate.
  static Times fills(int units, int below, int slots, std::int64_t accumulation) {
    const std::int64_t without = std::max(0, units - slots);
    const int after_barrier = std::max(0, units - below - slots);
    return {.before_barrier = without + below,
            .after_barrier = after_barrier,
            .step_boundary = units - below - after_barrier,
            .inner_micro_batches = 2 * (accumulation - 1) * without};
  }
  /// What keeps a gradient buffer after backward in each of `times` micro-batches in the middle:
  /// what the last of them has in its buffers may stay there until the step's turn.
  static Times drains(int units, int buffers, std::int64_t times) {
    const std::int64_t late = std::min<std::int64_t>({units, buffers, times * units});
    return {.inner_micro_batches = times * units - late, .anywhere = late};
  }

  void add(Lane lane, const ChunkSum& unit, const Times& times) {
    const auto index = lane_index(lane);
    busy[index] += static_cast<double>(times.all()) * unit.seconds;
    step_boundary[index] += static_cast<double>(times.at_turn()) * unit.seconds;
    before_barrier[index] += static_cast<double>(times.before_barrier) * unit.seconds;
    after_barrier[index] += static_cast<double>(times.after_barrier) * unit.seconds;
    inner_micro_batches[index] += static_cast<double>(times.inner_micro_batches) * unit.seconds;
    operations[index] += times.all() * unit.operations;
  }
};

/// What the units of one class add to it.
struct Estimator::ClassWork {
  Estimator& estimator;
  const Candidate& candidate;
  SearchLevel scope;
  std::size_t unit_class;
  Placed placed;
  LaneWork& load;
  ChunkSums& sums;
  int units = estimator.classes_[unit_class].units;
  bool several = estimator.request_.num_gpus > 1;  ///< ranks

  void add_fetches();
  void add_gradients();
  void add_drains();
  void add_adam();
  void add_state();
  void add_parameters();

 private:
  void add(const ChunkWork& work, const LaneWork::Times& times);
  [[nodiscard]] ChunkSum sum(const ChunkWork& work);
};

}  // namespace athanor
