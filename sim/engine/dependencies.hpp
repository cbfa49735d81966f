// SPDX-License-Identifier: Apache-2.0
// Waits of a program turned around: for each operation, those that it lets start when it ends.
#pragma once

#include "sim/model/program.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace athanor {

/// Lists of operations by operation, in one piece of memory.
class Adjacency {
 public:
  /// Makes one list per operation: the operations whose `member` list holds it.
  Adjacency(const Program& program, std::vector<std::int32_t> Operation::* member);
  [[nodiscard]] std::span<const std::int32_t> operator[](std::size_t operation) const noexcept {
    return {targets_.data() + offsets_[operation], offsets_[operation + 1] - offsets_[operation]};
  }

 private:
  std::vector<std::size_t> offsets_;
  std::vector<std::int32_t> targets_;
};

/// Throws Error when a wait points outside the program or, within a step, not backwards.
void check_waits(const Program& program);

struct Dependencies {
  /// Takes a program that check_waits has accepted.
  explicit Dependencies(const Program& program);

  Adjacency same_step;  ///< operations of the same step that wait for this one
  Adjacency next_step;  ///< operations of the step after that wait for this one
  std::vector<std::int32_t> num_waits, num_previous_waits;
  std::array<std::vector<std::int32_t>, kNumLanes> lanes;  ///< operations in order of execution
};

}  // namespace athanor
