// SPDX-License-Identifier: Apache-2.0
// The ranks of a job agree on an NCCL communicator.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <nccl.h>

namespace athanor::cuda {

/// Exchanges NCCL's unique id over the job's rank store and returns it. Throws the errors of
/// join_rank_store().
[[nodiscard]] ncclUniqueId meet_ranks(const RankInfo& rank);

}  // namespace athanor::cuda
