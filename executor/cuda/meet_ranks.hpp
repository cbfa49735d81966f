// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job agree on a communicator.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <nccl.h>

namespace athanor::cuda {

/// Exchanges NCCL's unique id over the job's store (rank_store.hpp, whose errors it throws).
[[nodiscard]] ncclUniqueId meet_ranks(const RankInfo& rank);

}  // namespace athanor::cuda
