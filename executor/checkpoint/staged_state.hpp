// SPDX-License-Identifier: Apache-2.0
// Host memory for a copy of the state, from which a checkpoint is written while steps change the
// state itself.
#pragma once

#include "executor/backend/device.hpp"
#include "executor/train/training_state.hpp"
#include "sim/model/program.hpp"

#include <vector>

namespace athanor {

/// A copy of what one rank saves.
class StagedState {
 public:
  /// Takes the memory for `ranges` now, so that a machine that lacks it fails here. It is pinned:
  /// copies from a GPU reach it at full speed.
  StagedState(Device& device, const std::vector<StateRange>& ranges);

  /// Copies the state and returns ranges that read the copy, on any thread, until the next call.
  /// `ranges` are those of the constructor, after other steps.
  [[nodiscard]] std::vector<StateRange> copy(const std::vector<StateRange>& ranges);

 private:
  MemoryBlock memory_;
};

/// Returns the bytes that a rank's copy takes at most: 12 for each parameter whose state it saves.
[[nodiscard]] Bytes staged_bytes(const Program& program) noexcept;

}  // namespace athanor
