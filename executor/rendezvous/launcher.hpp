// SPDX-License-Identifier: Apache-2.0
// How the processes of a job come about.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Replaces this process by mpirun, which starts `num_processes` of it with the same arguments
/// less --nproc. Throws Error when there is no mpirun.
[[noreturn]] void relaunch_under_mpirun(int num_processes, std::span<char* const> arguments);

/// Starts `num_processes` of this program with the same arguments less --nproc, as torchrun would
/// on one machine, and waits for their end. Once one has failed the others are ended, too. Returns
/// the exit code of the first that failed, else 0. Throws Error when they cannot be started.
[[nodiscard]] int run_ranks(int num_processes, std::span<char* const> arguments);

/// `arguments` without --nproc and its value.
[[nodiscard]] std::vector<std::string> without_nproc(std::span<char* const> arguments);

/// Throws InputError unless `plan_world_size` processes are about to run: as started by a launcher
/// (`rank`), else as asked for by --nproc (0 = not given).
void check_world_size(int plan_world_size, const RankInfo& rank, int num_processes);

}  // namespace athanor
