// SPDX-License-Identifier: Apache-2.0
// MPI calls with checked results, and waiting that leaves the processor to others.
#pragma once

#include "executor/backend/collectives.hpp"

#include <mpi.h>

#include <atomic>

namespace athanor {

/// Throws Error with MPI's own text unless `status` is MPI_SUCCESS.
void check_mpi(int status);

/// Waits until `request` is complete. Polls a little, then sleeps between polls, since ranks share
/// cores with each other's compute lanes. Throws Error("cancelled") soon after `*cancelled` (may be
/// null) becomes true; the request is then abandoned, and MPI must not be used any more.
void wait_for(MPI_Request& request, const std::atomic<bool>* cancelled);

}  // namespace athanor
