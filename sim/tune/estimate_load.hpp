// SPDX-License-Identifier: Apache-2.0
// What the lanes have to do in a step of a candidate.
#pragma once

#include "sim/tune/estimate.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace athanor {

/// What the lanes of one rank have to do.
struct Estimator::Load {
  /// In a step; of that, certainly at its turn, which is from the last micro-batch's backward to
  /// the end of the next step's first forward, and certainly in its middle, which is the rest. Both
  /// without phases of units.
  LaneSeconds busy{}, turn{}, middle{};
  std::array<std::int64_t, kNumLanes> operations{};
  Seconds after_norm = 0;  ///< of the CPU, between the norm and the next forward
  Seconds late = 0;        ///< of that, of leading units alone
  Seconds streamed = 0;    ///< reads of state that streams through the device

  /// How often an operation runs.
  struct Times {
    std::int64_t turn = 0, middle = 0, anywhere = 0;
    [[nodiscard]] std::int64_t all() const noexcept { return turn + middle + anywhere; }
  };
  /// Units that are filled into `slots`, at least: all in the first pass over them, and in every
  /// later pass those for which there was no slot at its start.
  static Times fills(int units, int slots, std::int64_t accumulation) {
    const std::int64_t without = std::max(0, units - slots);
    return {.turn = units + without, .middle = 2 * (accumulation - 1) * without};
  }
  /// What keeps a gradient buffer after backward in each of `times` micro-batches in the middle:
  /// what the last of them has in its buffers may stay there until the step's turn.
  static Times drains(int units, int buffers, std::int64_t times) {
    const std::int64_t late = std::min<std::int64_t>({units, buffers, times * units});
    return {.middle = times * units - late, .anywhere = late};
  }

  void add(Lane lane, const ChunkSum& unit, const Times& times) {
    const auto index = static_cast<std::size_t>(lane);
    busy[index] += static_cast<double>(times.all()) * unit.seconds;
    turn[index] += static_cast<double>(times.turn) * unit.seconds;
    middle[index] += static_cast<double>(times.middle) * unit.seconds;
    operations[index] += times.all() * unit.operations;
  }
};

/// What the units of one class add to it.
struct Estimator::ClassWork {
  Estimator& estimator;
  const Candidate& candidate;
  std::size_t unit_class;
  Placed placed;
  Load& load;
  int units = estimator.classes_[unit_class].units;
  bool several = estimator.request_.num_gpus > 1;  ///< ranks

  void add_fetches();
  void add_gradients();
  void add_adam();
  void add_state();
  void add_parameters();

 private:
  void add(const ChunkWork& work, const Load::Times& times);
  [[nodiscard]] const ChunkSum& sum(const ChunkWork& work);
};

}  // namespace athanor
