// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/mpi_launch.hpp"

#include "sim/base/errors.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

namespace athanor {
namespace {

/// Prefixes of variables that an outer launcher sets and an inner mpirun would take for its own.
constexpr std::array<std::string_view, 5> kLauncherPrefixes{"OMPI_", "PMIX_", "PMI_", "PRTE_",
                                                            "ORTE_"};
/// Open MPI reads its switches from the environment; other MPIs do not mind.
constexpr std::array<std::string_view, 4> kOpenMpiSwitches{
    "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none"};

bool is_inherited(std::string_view variable) {
  return std::none_of(kLauncherPrefixes.begin(), kLauncherPrefixes.end(),
                      [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

std::vector<std::string> job_environment() {
  std::vector<std::string> environment(kOpenMpiSwitches.begin(), kOpenMpiSwitches.end());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (is_inherited(*variable)) {
      environment.emplace_back(*variable);
    }
  }
  return environment;
}

/// Returns the null-terminated array that exec takes. It is valid as long as `strings`.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

int wait_for_exit(pid_t process) {
  constexpr int kSignalExitCode = 128;
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) {
      throw Error(std::string("waiting for mpirun: ") + std::strerror(errno));
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalExitCode + WTERMSIG(status);
}

}  // namespace

int run_under_mpi(int num_ranks, const std::vector<std::string>& command) {
  std::vector<std::string> arguments{"mpirun", "-n", std::to_string(num_ranks)};
  arguments.insert(arguments.end(), command.begin(), command.end());
  std::vector<std::string> environment = job_environment();
  pid_t process = 0;
  const int status = posix_spawnp(&process, "mpirun", nullptr, nullptr,
                                  pointers_to(arguments).data(), pointers_to(environment).data());
  if (status != 0) {
    throw Error(std::string("cannot start mpirun: ") + std::strerror(status) +
                ". Install Open MPI (Debian: openmpi-bin), or use one rank.");
  }
  return wait_for_exit(process);
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace athanor
