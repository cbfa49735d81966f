// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_launcher.hpp"

#include "executor/rendezvous/launcher.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
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

/// Time that ranks have, after the first has failed, to report what they saw.
constexpr std::chrono::seconds kGrace{10};

/// A port of this machine at which the ranks meet. The launcher listens there from the start and
/// hands the socket to rank 0. A port that is only known to be free may be another's by then, even
/// the end of a rank's own attempt to connect.
class LocalRendezvous {
 public:
  LocalRendezvous() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    const bool listens = socket_ >= 0 && ::bind(socket_, plain, length) == 0 &&
                         ::listen(socket_, SOMAXCONN) == 0 &&
                         ::getsockname(socket_, plain, &length) == 0;
    if (!listens) {
      const int error = errno;
      leave();
      throw Error(fmt::format("no port for the ranks to meet at: {}", std::strerror(error)));
    }
    port_ = ::ntohs(address.sin_port);
  }
  ~LocalRendezvous() { leave(); }
  LocalRendezvous(const LocalRendezvous&) = delete;
  LocalRendezvous& operator=(const LocalRendezvous&) = delete;

  [[nodiscard]] int port() const noexcept { return port_; }
  /// Lets the descriptor survive exec and returns it; for the process that becomes rank 0.
  [[nodiscard]] int hand_over() const noexcept {
    ::fcntl(socket_, F_SETFD, 0);
    return socket_;
  }

 private:
  void leave() const noexcept {
    if (socket_ >= 0) ::close(socket_);
  }

  int socket_, port_ = 0;
};

pid_t start_rank(int rank, int num_processes, const LocalRendezvous& rendezvous,
                 const std::vector<std::string>& command) {
  const pid_t launcher = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  if (process > 0) return process;
  // Without its launcher a rank must not go on writing where a resumed run may already write.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(kExitFailed);
  for (const auto& [name, value] :
       {std::pair("RANK", rank), std::pair("LOCAL_RANK", rank),
        std::pair("WORLD_SIZE", num_processes), std::pair("MASTER_PORT", rendezvous.port())}) {
    ::setenv(name, std::to_string(value).c_str(), 1);
  }
  if (rank == 0) ::setenv(kListenDescriptor, std::to_string(rendezvous.hand_over()).c_str(), 1);
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

/// Waits for all ranks, but only kGrace once one has failed. Returns the first failure, else 0.
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
  const std::vector<std::string> command = without_num_ranks(arguments);
  std::vector<pid_t> ranks;
  {
    const LocalRendezvous rendezvous;
    for (int rank = 0; rank < num_processes; ++rank) {
      ranks.push_back(start_rank(rank, num_processes, rendezvous, command));
    }
  }  // without rank 0 nobody listens: the others see it
  return wait_for_ranks(std::move(ranks));
}

}  // namespace athanor
