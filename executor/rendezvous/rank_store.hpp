// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job meet before NCCL connects them.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace athanor::cuda {

/// The job's TCP store at MASTER_ADDR and MASTER_PORT, as torchrun and --nproc set them; rank 0
/// keeps it where the launcher does not. Throws InputError when they are missing, Error when rank 0
/// cannot listen there or does not come.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> join_rank_store(const RankInfo& rank);

}  // namespace athanor::cuda
