// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint under any plan and number of processes.
#pragma once

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/train/training_state.hpp"

#include <string>

namespace athanor {

/// Returns the folder of the newest complete checkpoint under `run`/checkpoints. Throws InputError
/// when there is none.
[[nodiscard]] std::string find_newest_checkpoint(const std::string& run);

struct Checkpoint {
  CheckpointState state;
  StateReader reader;  ///< keeps the files open
};

/// Opens a checkpoint of `architecture` and verifies the checksums of this rank's share of the
/// files. Throws InputError (file:tensor) for another model and for missing or damaged parts.
[[nodiscard]] Checkpoint open_checkpoint(const std::string& folder,
                                         const Architecture& architecture, int rank,
                                         int world_size);

}  // namespace athanor
