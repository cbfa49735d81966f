// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of the CPU backend.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <memory>

namespace athanor {

/// Collectives for this process's place in the job: local for one process, else MPI (this process
/// then ends when its launcher is killed). Throws
/// InputError when a launcher started several processes but no MPI connects them (torchrun). For
/// the CPU backend.
[[nodiscard]] std::unique_ptr<Collectives> connect(const RankInfo& rank);

}  // namespace athanor
