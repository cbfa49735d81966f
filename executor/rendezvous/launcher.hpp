// SPDX-License-Identifier: Apache-2.0
// The option --gpus (older name: --nproc): how many processes run.
#pragma once

#include "executor/rendezvous/rank_from_environment.hpp"

#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Returns `arguments` without --gpus and its value.
[[nodiscard]] std::vector<std::string> without_num_ranks(std::span<char* const> arguments);

/// Throws InputError unless `plan_world_size` processes are about to run. A launcher has started
/// them (`rank`), or --gpus asks for `num_processes` (0 = not given).
void check_world_size(int plan_world_size, const RankInfo& rank, int num_processes);

}  // namespace athanor
