// SPDX-License-Identifier: Apache-2.0
// Progress of every lane, where streams and host threads both see it.
#pragma once

#include "executor/cuda/handles.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor::cuda {

/// Progress counters of all lanes, in pinned memory. Operations of a lane have consecutive numbers
/// over all steps, from 1 on. The lane's counter holds the number of the one finished last.
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
  /// An operation of the program in one step.
  struct NumberedOperation {
    std::int32_t operation;
    std::int64_t step;
  };
  /// Returns the operation with that number.
  [[nodiscard]] NumberedOperation operation_at(Lane lane, std::int64_t number) const;

  /// The lane's counter: the number's low 32 bits, for streams.
  [[nodiscard]] std::uint32_t* counter(Lane lane) const;
  [[nodiscard]] bool has_reached(Lane lane, std::int64_t number) const;
  void set(Lane lane, std::int64_t number) const;

 private:
  std::int64_t first_step_;
  std::array<std::vector<std::int32_t>, kNumLanes> operations_;
  std::vector<std::int64_t> ordinal_;  ///< [operation]: position within its lane
  PinnedBlock counters_;
};

}  // namespace athanor::cuda
