// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint under any plan and number of processes.
#pragma once

#include "executor/checkpoint/checkpoint_finder.hpp"
#include "executor/train/training_state.hpp"
#include "sim/model/architecture.hpp"

#include <string>

namespace athanor {

struct Checkpoint {
  CheckpointState state;
  StateReader reader;  ///< keeps the files open
};

/// Opens a checkpoint of `architecture` and verifies the checksums of this rank's share of the
/// files. Throws InputError (file:tensor) for another model and for missing or damaged parts.
[[nodiscard]] Checkpoint open_checkpoint(const ChosenCheckpoint& chosen,
                                         const Architecture& architecture, int rank,
                                         int world_size);

/// Reads all files of the checkpoint in `folder`. Returns what is wrong with them, or nothing.
[[nodiscard]] std::string find_damage(const std::string& folder, const CheckpointState& state);

}  // namespace athanor
