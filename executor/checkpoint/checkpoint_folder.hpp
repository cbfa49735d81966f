// SPDX-License-Identifier: Apache-2.0
// Upkeep of RUN/checkpoints. Only files that a run of athanor wrote under its own names are ever
// deleted; what else lies there stays.
#pragma once

#include <string>
#include <vector>

namespace athanor {

/// Creates `checkpoints` if needed. Throws Error when it cannot be created, or is a link.
void make_checkpoints_folder(const std::string& checkpoints);

/// Removes what a killed process left of checkpoints that were being written or deleted, and
/// returns their names. No other process may write into the folder.
std::vector<std::string> remove_leftovers(const std::string& checkpoints);

/// Deletes the whole checkpoints of `run` but the `keep_last` newest. A reader never sees a part of
/// one.
void remove_older(const std::string& checkpoints, const std::string& run, int keep_last);

/// Renames a folder that is in the way of a checkpoint, and returns its new name, step-..aside.
std::string set_aside(const std::string& folder);

/// Name under which the checkpoint `name` is written. No reader takes it for a checkpoint.
[[nodiscard]] std::string partial_name(const std::string& name);

}  // namespace athanor
