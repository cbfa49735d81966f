// SPDX-License-Identifier: Apache-2.0
// The newest step that all ranks of several machines can have from memory. No machine knows it
// alone, so ranks tell each other what they have.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/snapshot/peer_ranks.hpp"
#include "executor/snapshot/run_memory.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace athanor {

/// Finding of one rank in the memory of its machine.
struct RankFinding {
  static constexpr std::int64_t kNothing = -1;
  std::int64_t steps = kNothing;     ///< to which its own state can be brought
  std::int64_t every = 1;            ///< steps for each version
  std::uint64_t layout = 0;          ///< layout_hash of that state
  std::array<std::int64_t, 2> copies{///< steps of whole copies of its ward's versions
                                     kNothing, kNothing};
  std::array<std::int64_t, 2> owners{kNothing, kNothing};  ///< the rank that the copy is of
  std::int64_t is_held = 0;                                ///< by a living process
};

/// Returns the memory that the findings of all ranks, [rank], amount to: RunMemory::lost says which
/// ranks take the copy of their peer. `peer_of`: returns the rank that keeps a rank's copy; -1:
/// none does. Layouts are those of ranks that have their own.
[[nodiscard]] FoundMemory combine_findings(const std::vector<RankFinding>& findings,
                                           const std::function<int(int rank)>& peer_of);

/// Finds what all ranks of `run` can have. Every rank calls it and gets the same, but for those
/// problems that its machine alone knows.
[[nodiscard]] FoundMemory find_memory_of_ranks(const std::string& folder, const std::string& run,
                                               const std::function<int(int rank)>& peer_of,
                                               Collectives& ranks);

}  // namespace athanor
