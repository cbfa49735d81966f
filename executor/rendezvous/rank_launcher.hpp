// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a job on this machine (--gpus): on GPUs as child processes, on the CPU under
// mpirun.
#pragma once

#include <span>

namespace athanor {

/// Starts this program `num_processes` times with its arguments except --gpus, as torchrun would
/// on one machine, and waits for their end. Once one has failed, the others are ended, too. Returns
/// the exit code of the first that failed, else 0. Throws Error when they cannot be started.
[[nodiscard]] int run_ranks(int num_processes, std::span<char* const> arguments);

/// Does the same with the ranks as one MPI job under mpirun.
[[nodiscard]] int run_ranks_under_mpirun(int num_processes, std::span<char* const> arguments);

}  // namespace athanor
