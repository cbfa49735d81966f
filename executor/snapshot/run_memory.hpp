// SPDX-License-Identifier: Apache-2.0
// The memory that the ranks of a run leave on this machine when they are killed: its names, what it
// holds, and its end.
#pragma once

#include "executor/snapshot/snapshot_reader.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Path of the shared memory of one rank.
[[nodiscard]] std::string memory_path(const std::string& folder, const std::string& run, int rank);

/// Removes what an earlier process has left at `path`, if anything. Throws Error where a living
/// process holds it.
void remove_rank_memory(const std::string& path);

/// Memory of one rank in `folder`.
struct RankMemory {
  std::string path, run;
  int rank = 0;
  Bytes bytes = 0;
};
/// Lists the memory of all runs, or of one, by run and rank. Files that are none of this user's are
/// passed by.
[[nodiscard]] std::vector<RankMemory> list_rank_memory(const std::string& folder,
                                                       const std::string& run = "");

/// State that a run's memory holds on this machine.
struct RunMemory {
  std::int64_t steps = 0;  ///< to which all ranks can be brought
  int world_size = 1;
  std::vector<std::uint64_t> layouts;  ///< hashes of the ranks that have their memory
  /// [rank]: those that take the copy of their peer; empty: none
  std::vector<bool> lost = {};  // NOLINT(readability-redundant-member-init)
  std::string text;             ///< rank 0's
};
struct FoundMemory {
  std::optional<RunMemory> memory;
  std::string problem;   ///< why there is none although something is there; empty: nothing is there
  bool is_held = false;  ///< the run goes on
};
/// Looks for the newest step that all ranks of `run` can have. Nothing is changed.
[[nodiscard]] FoundMemory find_run_memory(const std::string& folder, const std::string& run);

/// Removes the memory of one run, or of all where `run` is empty, but never that of a run of which
/// a process lives. Returns what was removed; `held` receives what was not.
[[nodiscard]] std::vector<RankMemory> remove_run_memory(const std::string& folder,
                                                        const std::string& run,
                                                        std::vector<RankMemory>& held);

}  // namespace athanor
