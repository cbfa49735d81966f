// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of the CPU backend.
#pragma once

#include "executor/backend/host_collectives.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <memory>

namespace athanor {

/// Makes the CPU backend's collectives for this process: local where it is alone.
[[nodiscard]] std::unique_ptr<Collectives> connect(const RankInfo& rank);

/// Makes collectives between all processes of a job of several: over MPI where that has started
/// them, else over sockets, for which they meet in the job's store. Throws InputError where the
/// launcher names no place for that (MASTER_ADDR, MASTER_PORT).
[[nodiscard]] std::unique_ptr<HostCollectives> connect_processes(const RankInfo& rank);

}  // namespace athanor
