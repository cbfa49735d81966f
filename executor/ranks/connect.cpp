// SPDX-License-Identifier: Apache-2.0
#include "executor/ranks/connect.hpp"

#include "executor/backend/collectives_local.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/ranks/collectives_mesh.hpp"
#include "executor/ranks/meet_mesh.hpp"
#include "executor/rendezvous/rank_store.hpp"

namespace athanor {

std::unique_ptr<Collectives> connect(const RankInfo& rank) {
  if (rank.world_size == 1) return make_local_collectives();
  return connect_processes(rank);
}

std::unique_ptr<HostCollectives> connect_processes(const RankInfo& rank) {
  if (rank.launched_by_mpi) return make_mpi_collectives();
  // The store lives on in rank 0, since others may still be reading.
  static const auto store = join_rank_store(rank);
  return make_mesh_collectives(
      std::make_shared<const Mesh>(meet_mesh(rank, *store, addresses_for_ranks(rank))));
}

}  // namespace athanor
