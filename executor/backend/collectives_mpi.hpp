// SPDX-License-Identifier: Apache-2.0
// Collectives over MPI, and the end of an MPI job.
#pragma once

#include "executor/backend/host_collectives.hpp"

#include <memory>

namespace athanor {

/// Collectives over all processes of the MPI job. Initializes MPI (MPI_THREAD_SERIALIZED) if nobody
/// has, and then finalizes it on destruction. Waits by polling with short sleeps, because ranks of
/// the CPU backend share cores with their own compute lanes.
[[nodiscard]] std::unique_ptr<HostCollectives> make_mpi_collectives();

/// Ends every process of the job at once (MPI_Abort), or this one where there is no job.
[[noreturn]] void abort_job(int exit_code) noexcept;

}  // namespace athanor
