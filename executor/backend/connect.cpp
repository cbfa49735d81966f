// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/connect.hpp"

#include "executor/backend/collectives_local.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

namespace athanor {

std::unique_ptr<Collectives> connect(const RankInfo& rank) {
  if (rank.world_size == 1) return make_local_collectives();
  if (!rank.launched_by_mpi) {
    throw InputError("environment:WORLD_SIZE",
                     fmt::format("{} processes were started without MPI", rank.world_size),
                     "The CPU backend needs MPI: start them with mpirun or srun, or start one with "
                     "--gpus.");
  }
  return make_mpi_collectives();
}

}  // namespace athanor
