// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a job on this machine (--gpus): on GPUs as child processes, on the CPU under
// mpirun.
#pragma once

#include "executor/rendezvous/launched_job.hpp"

#include <span>

namespace athanor {

/// Starts this program `num_processes` times with its arguments except --gpus, as torchrun would
/// on one machine, and waits for their end. Once one has failed, the others are ended, too,
/// after `grace`. Returns
/// how the job has ended. Throws Error when they cannot be started.
[[nodiscard]] JobEnd run_ranks(int num_processes, std::span<char* const> arguments,
                               Seconds grace = kReportGrace);

/// Does the same with the ranks as one MPI job under mpirun.
[[nodiscard]] JobEnd run_ranks_under_mpirun(int num_processes, std::span<char* const> arguments,
                                            Seconds grace = kReportGrace);

}  // namespace athanor
