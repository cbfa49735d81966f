// SPDX-License-Identifier: Apache-2.0
// The process that outlives a job and removes what its mpirun has left.
#pragma once

#include "executor/rendezvous/mpi_leftovers.hpp"

#include <sys/types.h>

namespace athanor {

/// Starts a process that waits for the end of `launcher`, removes the leftovers and ends. It also
/// ends the launcher or the caller, where that stays stopped for longer than ranks wait for it; of
/// the caller it says so, since no rank may be left that does. It belongs to no process group of
/// the job, has a command line of its own ("athanor-cleaner") and holds none of the job's files
/// open. The caller must have one thread. Returns its number; -1: it could not be started.
pid_t start_cleaner(pid_t launcher, const MpiLeftovers& leftovers);

}  // namespace athanor
