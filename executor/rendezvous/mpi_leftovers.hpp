// SPDX-License-Identifier: Apache-2.0
// Files that Open MPI leaves in /tmp and /dev/shm when mpirun is killed, and the process that
// removes them.
#pragma once

#include "executor/rendezvous/local_socket.hpp"

#include <sys/types.h>

#include <optional>
#include <string>

namespace athanor {

/// The places of one MPI job on this machine. Those of other jobs are never touched.
struct MpiLeftovers {
  std::string folder;          ///< session folder of the job
  std::string segment_folder;  ///< where its shared memory lies; empty: in `folder`
  std::string segment_prefix;  ///< how the names of its segments start
};

/// Whether the process is an mpirun, or what that has started on another node.
[[nodiscard]] bool is_mpi_launcher(pid_t process);

/// Returns the places of the job that this rank belongs to, as Open MPI tells them; none: other.
[[nodiscard]] std::optional<MpiLeftovers> leftovers_from_environment();

/// Makes a folder that a new job can have for itself, in shared memory where there is room.
[[nodiscard]] MpiLeftovers make_session_folder();

/// Marks the folder as in use, for as long as the descriptor is open here or in a child.
[[nodiscard]] Descriptor hold_session_folder(const std::string& folder);

/// Removes this user's session folders that no process holds: those of jobs of which every process
/// was killed at once, the cleaner too.
void remove_abandoned_session_folders() noexcept;

/// Removes what is there.
void remove_leftovers(const MpiLeftovers& leftovers) noexcept;

}  // namespace athanor
