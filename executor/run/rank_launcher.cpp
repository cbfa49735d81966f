// SPDX-License-Identifier: Apache-2.0
// --nproc on GPUs: ranks as child processes, which meet at a port of this machine.
#include "executor/run/launcher.hpp"
#include "sim/model/errors.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace athanor {
namespace {

/// After the first rank has failed, for the others to say what they saw.
constexpr std::chrono::seconds kGrace{10};

/// A port that nobody listens on now. Rank 0 takes it moments later.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  const bool found = socket >= 0 && ::bind(socket, plain, length) == 0 &&
                     ::getsockname(socket, plain, &length) == 0;
  const int error = errno;
  if (socket >= 0) ::close(socket);
  if (!found)
    throw Error(fmt::format("no port for the ranks to meet at: {}", std::strerror(error)));
  return ::ntohs(address.sin_port);
}

pid_t start_rank(int rank, int num_processes, int port, const std::vector<std::string>& command) {
  const pid_t launcher = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  if (process > 0) return process;
  // Without its launcher a rank must not go on writing where a resumed run may already write.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(kExitFailed);
  for (const auto& [name, value] :
       {std::pair("RANK", rank), std::pair("LOCAL_RANK", rank),
        std::pair("WORLD_SIZE", num_processes), std::pair("MASTER_PORT", port)}) {
    ::setenv(name, std::to_string(value).c_str(), 1);
  }
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(kExitFailed);
}

int exit_code_of(int status) {
  constexpr int kSignalExitCode = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalExitCode + WTERMSIG(status);
}

void kill_all(const std::vector<pid_t>& ranks, int signal) {
  for (const pid_t rank : ranks) ::kill(rank, signal);
}

/// Waits for all; once one has failed, for a while only. Returns the first failure, else 0.
int wait_for_ranks(std::vector<pid_t> ranks) {
  int first_failure = kExitDone;
  auto deadline = std::chrono::steady_clock::time_point::max();
  while (!ranks.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      std::erase(ranks, ended);
      const int code = exit_code_of(status);
      if (code != kExitDone && first_failure == kExitDone) {
        first_failure = code;
        deadline = std::chrono::steady_clock::now() + kGrace;
      }
      continue;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      kill_all(ranks, SIGKILL);
      deadline = std::chrono::steady_clock::time_point::max();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return first_failure;
}

}  // namespace

int run_ranks(int num_processes, std::span<char* const> arguments) {
  const std::vector<std::string> command = without_nproc(arguments);
  const int port = free_port();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < num_processes; ++rank) {
    ranks.push_back(start_rank(rank, num_processes, port, command));
  }
  return wait_for_ranks(std::move(ranks));
}

}  // namespace athanor
