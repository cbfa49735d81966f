// SPDX-License-Identifier: Apache-2.0
// How many operations every lane has finished, where streams and host threads both see it.
#pragma once

#include "executor/cuda/handles.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor::cuda {

/// Operations of a lane have consecutive numbers over all steps, from 1 on; the lane's counter, in
/// pinned memory, holds the number of the one finished last.
class LaneProgress {
 public:
  LaneProgress(const Program& program, std::int64_t first_step);

  [[nodiscard]] const std::vector<std::int32_t>& operations(Lane lane) const {
    return operations_[lane_index(lane)];
  }
  [[nodiscard]] std::int64_t number(const Program& program, std::int32_t operation,
                                    std::int64_t step) const;
  /// Number of the lane's last operation of `step`.
  [[nodiscard]] std::int64_t last_number(Lane lane, std::int64_t step) const;
  /// The operation with that number, and its step.
  struct ValuePath {
    std::int32_t operation;
    std::int64_t step;
  };
  [[nodiscard]] ValuePath place(Lane lane, std::int64_t number) const;

  /// The counter, for streams: the number's low 32 bits.
  [[nodiscard]] std::uint32_t* counter(Lane lane) const;
  [[nodiscard]] bool has_reached(Lane lane, std::int64_t number) const;
  void set(Lane lane, std::int64_t number) const;

 private:
  std::int64_t first_step_;
  std::array<std::vector<std::int32_t>, kNumLanes> operations_;
  std::vector<std::int64_t> ordinal_;  ///< by operation, within its lane
  PinnedBlock counters_;
};

}  // namespace athanor::cuda
