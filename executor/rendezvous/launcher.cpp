// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/launcher.hpp"

#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {
namespace {

/// The option and its older name, which scripts still use.
constexpr std::array<std::string_view, 2> kOptions{"--gpus", "--nproc"};

}  // namespace

std::vector<std::string> without_num_ranks(std::span<char* const> arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    const auto with_value = [argument](std::string_view option) {
      return argument.starts_with(std::string(option) + "=");
    };
    if (std::ranges::find(kOptions, argument) != kOptions.end()) {
      ++i;  // and its value
    } else if (std::ranges::none_of(kOptions, with_value)) {
      kept.emplace_back(argument);
    }
  }
  return kept;
}

void check_world_size(int plan_world_size, const RankInfo& rank, int num_processes) {
  const bool launched = rank.world_size > 1 || rank.launched_by_mpi;
  if (launched && num_processes > 0 && num_processes != rank.world_size) {
    throw InputError(
        std::string(kOptions.front()),
        fmt::format("{}, but a launcher has started {} processes", num_processes, rank.world_size),
        "Leave --gpus out under mpirun and srun.");
  }
  const int processes = launched || num_processes == 0 ? rank.world_size : num_processes;
  if (processes == plan_world_size) return;
  throw InputError(
      "plan:world_size",
      fmt::format("the plan is for {} processes, but {} would run", plan_world_size, processes),
      fmt::format("Use --gpus {}, or make a plan for {} (athanor tune --gpus {}).", plan_world_size,
                  processes, processes));
}

}  // namespace athanor
