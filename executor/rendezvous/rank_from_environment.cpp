// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_from_environment.hpp"

#include "sim/base/errors.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace athanor {
namespace {

/// Variables by which one launcher tells a process its rank.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
  bool is_mpi;
};

/// Launchers in order of precedence. MPI's own variables come first: MPI_Init follows them,
/// whatever RANK an outer shell left behind. Slurm's size is that of the step, not SLURM_NPROCS,
/// which a batch script sees without being a task.
constexpr std::array kLaunchers{
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    Launcher{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
             "MV2_COMM_WORLD_LOCAL_SIZE", true},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, false},
};

std::optional<int> read_count(const char* variable, int minimum, int maximum) {
  const char* const value = variable == nullptr ? nullptr : std::getenv(variable);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::string_view text(value);
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < minimum ||
      count > maximum) {
    throw InputError(std::string("environment:") + variable,
                     "'" + std::string(text) + "' is not a number from " + std::to_string(minimum) +
                         " to " + std::to_string(maximum),
                     "Launch with mpirun, srun, torchrun or --gpus, or unset it.");
  }
  return count;
}

/// Whether Slurm started an MPI process: through PMIx, which publishes a rank but no size.
bool pmix_is_present() { return std::getenv("PMIX_RANK") != nullptr; }

}  // namespace

std::string_view environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

RankInfo rank_from_environment() {
  constexpr int kAny = std::numeric_limits<int>::max();
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> world_size = read_count(launcher.world_size, 1, kAny);
    if (!world_size) {
      continue;
    }
    const std::optional<int> rank = read_count(launcher.rank, 0, *world_size - 1);
    if (!rank) {
      continue;
    }
    const int local_rank = read_count(launcher.local_rank, 0, *world_size - 1).value_or(*rank);
    const int local_size = read_count(launcher.local_size, 1, *world_size).value_or(0);
    return {*rank, *world_size, local_rank, launcher.is_mpi || pmix_is_present(), local_size};
  }
  return {};
}

std::optional<int> rank_in(std::string_view environment) {
  const std::string entries = '\0' + std::string(environment);
  for (const Launcher& launcher : kLaunchers) {
    const std::string name = '\0' + std::string(launcher.rank) + '=';
    const std::size_t at = entries.find(name);
    if (at == std::string::npos) continue;
    const char* const value = entries.c_str() + at + name.size();
    int rank = 0;
    const auto [end, error] = std::from_chars(value, value + std::strlen(value), rank);
    if (error == std::errc() && *end == '\0') return rank;
  }
  return std::nullopt;
}

}  // namespace athanor
