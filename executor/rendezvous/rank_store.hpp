// SPDX-License-Identifier: Apache-2.0
// The store in which the ranks of a job meet before NCCL, or a mesh of sockets, connects them.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <vector>

namespace athanor {

/// Joins the job's TCP store at MASTER_ADDR and MASTER_PORT, as torchrun and --gpus set them. Rank
/// 0 keeps the store where the launcher does not, and then listens at that address alone. Keys are
/// those of this start of the job. Throws InputError when the variables are missing, and Error when
/// rank 0 cannot listen there or does not come.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> join_rank_store(const RankInfo& rank);

/// Returns the addresses of this machine by which other ranks of the job reach it: the one from
/// which it reaches MASTER_ADDR, or that itself.
[[nodiscard]] std::vector<std::uint32_t> addresses_for_ranks(const RankInfo& rank);

}  // namespace athanor
