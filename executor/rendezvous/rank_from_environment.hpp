// SPDX-License-Identifier: Apache-2.0
// This process's place in its job, as the launcher says it.
#pragma once

namespace athanor {

/// This process's place in the job, from the launcher's environment (torchrun, Open MPI, PMI,
/// MVAPICH, Slurm), else 0 of 1. Throws InputError on nonsense values, naming the variable.
struct RankInfo {
  int rank = 0, world_size = 1, local_rank = 0;
  bool launched_by_mpi = false;
};
[[nodiscard]] RankInfo rank_from_environment();

/// Environment of rank 0, where --nproc started it: the descriptor that listens at MASTER_PORT.
inline constexpr const char* kListenDescriptor = "ATHANOR_LISTEN_DESCRIPTOR";

}  // namespace athanor
