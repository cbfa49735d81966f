// SPDX-License-Identifier: Apache-2.0
// Starts processes under mpirun.
#pragma once

#include <string>
#include <vector>

namespace athanor {

/// Runs `command` (program and arguments) as `num_ranks` processes of one MPI job on this machine
/// and waits for its end. Ranks are not bound to cores, since the lanes of a rank are threads that
/// need several. Root and more ranks than cores are allowed. The new job inherits nothing from a
/// job that this process belongs to. Returns mpirun's exit code. Throws Error when mpirun cannot be
/// started.
[[nodiscard]] int run_under_mpi(int num_ranks, const std::vector<std::string>& command);

/// Returns the path of the running program.
[[nodiscard]] std::string own_program();

}  // namespace athanor
