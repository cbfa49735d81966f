// SPDX-License-Identifier: Apache-2.0
// This process's rank, as its launcher tells it.
#pragma once

#include <optional>
#include <string_view>

namespace athanor {

/// Returns the value of an environment variable, or nothing where it is not set.
[[nodiscard]] std::string_view environment_variable(const char* name);

/// A process's rank in its job.
struct RankInfo {
  int rank = 0, world_size = 1, local_rank = 0;
  bool launched_by_mpi = false;
  int local_size = 0;  ///< ranks on this machine; 0: the launcher does not tell

  [[nodiscard]] bool is_on_one_machine() const noexcept { return local_size == world_size; }
};

/// Reads this process's rank from the launcher's environment (torchrun, Open MPI, PMI, MVAPICH,
/// Slurm); without a launcher it is 0 of 1. Throws InputError on a value out of range, naming the
/// variable.
[[nodiscard]] RankInfo rank_from_environment();

/// Returns the rank that a launcher has told a process in its environment: "NAME=value" entries,
/// each with a zero byte behind it. Nothing where none has.
[[nodiscard]] std::optional<int> rank_in(std::string_view environment);

/// Variable in which --gpus passes rank 0 the descriptor that listens at MASTER_PORT.
inline constexpr const char* kListenDescriptor = "ATHANOR_LISTEN_DESCRIPTOR";

}  // namespace athanor
