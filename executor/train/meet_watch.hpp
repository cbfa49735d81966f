// SPDX-License-Identifier: Apache-2.0
// Connects the watches of ranks on several machines, through collectives.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/watch/job_watch.hpp"

namespace athanor {

/// Gives every rank's watch a connection to rank 0's. Every rank calls it, with collectives on host
/// memory. Returns whether this rank has one: without, nobody notices if it is stopped.
[[nodiscard]] bool meet_watch(JobWatch& watch, Collectives& ranks);

}  // namespace athanor
