// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of the CPU backend.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <memory>

namespace athanor {

/// Makes the CPU backend's collectives for this process: local where it is alone, else MPI. Throws
/// InputError when a launcher started several processes that no MPI connects (torchrun).
[[nodiscard]] std::unique_ptr<Collectives> connect(const RankInfo& rank);

}  // namespace athanor
