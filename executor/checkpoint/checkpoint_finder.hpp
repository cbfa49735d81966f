// SPDX-License-Identifier: Apache-2.0
// Finds checkpoints by what they are: their name, their state.json and their files agree, and the
// state names the run. Links are not followed.
#pragma once

#include "executor/checkpoint/checkpoint_state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// A folder that is a checkpoint, or was meant as one.
struct FoundCheckpoint {
  std::string folder;
  std::int64_t step = 0;  ///< by its name
  std::optional<CheckpointState> state;
  std::string problem;  ///< why it cannot be used; empty: it is whole, but for its checksums
};

/// Lists what is in `checkpoints` (RUN/checkpoints) under the name of a checkpoint, by step.
/// Folders without any file of a checkpoint are a user's and are left out.
[[nodiscard]] std::vector<FoundCheckpoint> list_checkpoints(const std::string& checkpoints);

/// Whether `found` is whole and of the run. A checkpoint of schema 1 names no run and counts as the
/// run's in whose folder it is.
[[nodiscard]] bool is_whole_of(const FoundCheckpoint& found, const std::string& run);

/// A checkpoint to resume from.
struct ChosenCheckpoint {
  std::string folder;
  CheckpointState state;
  std::string way_out;  ///< hint if one of its files turns out to be damaged
};

/// Returns the newest checkpoint of `run` in RUN/checkpoints. An empty `run` is unknown: then all
/// must be of one run. Throws InputError when there is none, when a newer one is damaged, and when
/// there are newer ones of another run.
[[nodiscard]] ChosenCheckpoint choose_newest_checkpoint(const std::string& checkpoints,
                                                        const std::string& run);
/// Returns the checkpoint in `folder`, whatever its name. Throws InputError when it is damaged.
[[nodiscard]] ChosenCheckpoint choose_checkpoint(const std::string& folder);

/// Returns the damaged checkpoints behind `step`, which are in the way of a run that goes on from
/// there. Throws InputError when a later one is whole, with the ways out.
[[nodiscard]] std::vector<std::string> damaged_after(const std::string& checkpoints,
                                                     std::int64_t step);

}  // namespace athanor
