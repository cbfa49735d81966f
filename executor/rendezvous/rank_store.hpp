// SPDX-License-Identifier: Apache-2.0
// The store in which the ranks of a job meet before NCCL connects them.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace athanor::cuda {

/// Joins the job's TCP store at MASTER_ADDR and MASTER_PORT, as torchrun and --gpus set them. Rank
/// 0 keeps the store where the launcher does not. Throws InputError when the variables are missing,
/// and Error when rank 0 cannot listen there or does not come.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> join_rank_store(const RankInfo& rank);

}  // namespace athanor::cuda
