// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_launcher.hpp"

#include "executor/rendezvous/interrupts.hpp"
#include "executor/rendezvous/launched_job.hpp"
#include "executor/rendezvous/launcher.hpp"
#include "executor/rendezvous/mpi_cleaner.hpp"
#include "executor/rendezvous/mpi_launch.hpp"
#include "executor/rendezvous/mpi_leftovers.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

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

/// Returns only if the program cannot be started.
void replace_program(const char* program, const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(program, argv.data());
}

void say_no_mpirun() {
  fmt::print(stderr,
             "athanor-train: error: cannot start mpirun: {}. Install Open MPI (Debian: "
             "openmpi-bin).\n",
             std::strerror(errno));
}

/// Becomes a rank, as torchrun would start it on one machine.
void become_rank(int rank, int num_processes, const LocalRendezvous& rendezvous,
                 const std::string& key, const std::vector<std::string>& command) {
  for (const auto& [name, value] :
       {std::pair("RANK", rank), std::pair("LOCAL_RANK", rank),
        std::pair("WORLD_SIZE", num_processes), std::pair("LOCAL_WORLD_SIZE", num_processes),
        std::pair("MASTER_PORT", rendezvous.port())}) {
    ::setenv(name, std::to_string(value).c_str(), 1);
  }
  if (rank == 0) ::setenv(kListenDescriptor, std::to_string(rendezvous.hand_over()).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv(kLauncherKey, key.c_str(), 1);
  replace_program("/proc/self/exe", command);
}

/// Returns the words that start this program under mpirun. All that MPI leaves on this machine is
/// kept in `folder`.
std::vector<std::string> mpirun_words(int num_processes, const std::string& folder,
                                      std::span<char* const> arguments) {
  // Ranks share cores with their own lanes: binding them would serialize the lanes. They end by
  // themselves and say why, so that mpirun has to wait before it kills them.
  std::vector<std::string> words{"mpirun",
                                 "-np",
                                 std::to_string(num_processes),
                                 "--bind-to",
                                 "none",
                                 "--oversubscribe",
                                 "--mca",
                                 "orte_tmpdir_base",
                                 folder,
                                 "--mca",
                                 "btl_vader_backing_directory",
                                 folder,
                                 "--mca",
                                 "odls_base_sigkill_timeout",
                                 "10"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.push_back(own_program());
  for (std::string& word : without_num_ranks(arguments.subspan(1))) {
    words.push_back(std::move(word));
  }
  return words;
}

/// A folder for MPI, removed on destruction, and by another process if this one is killed.
class SessionFolder {
 public:
  SessionFolder() : made_(make()) { remove_abandoned_session_folders(); }
  ~SessionFolder() {
    remove_leftovers(made_.leftovers);
    if (made_.cleaner <= 0) return;
    ::kill(made_.cleaner, SIGKILL);
    ::waitpid(made_.cleaner, nullptr, 0);
  }
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return made_.leftovers.folder; }

 private:
  struct Made {
    MpiLeftovers leftovers;
    Descriptor held;
    pid_t cleaner = -1;
  };

  /// A signal between the folder and its cleaner would leave the folder behind.
  static Made make() {
    const HeldInterrupts interrupts;
    MpiLeftovers leftovers = make_session_folder();
    Descriptor held = hold_session_folder(leftovers.folder);
    const pid_t cleaner = start_cleaner(::getpid(), leftovers);
    return {std::move(leftovers), std::move(held), cleaner};
  }

  Made made_;
};

}  // namespace

JobEnd run_ranks(int num_processes, std::span<char* const> arguments, Seconds grace) {
  const std::vector<std::string> command = without_num_ranks(arguments);
  LaunchedJob job(num_processes, grace);
  {
    const LocalRendezvous rendezvous;
    for (int rank = 0; rank < num_processes; ++rank) {
      job.start(fmt::format("rank {}", rank),
                [&] { become_rank(rank, num_processes, rendezvous, job.key(), command); });
    }
  }  // without rank 0 nobody listens: the others see it
  return job.wait();
}

JobEnd run_ranks_under_mpirun(int num_processes, std::span<char* const> arguments, Seconds grace) {
  const SessionFolder folder;
  LaunchedJob job(num_processes, grace);
  const std::vector<std::string> words = mpirun_words(num_processes, folder.path(), arguments);
  job.start("mpirun", [&] {
    ::setenv(kLauncherKey, job.key().c_str(), 1);
    block_interrupts();
    replace_program("mpirun", words);
    say_no_mpirun();
  });
  return job.wait();
}

}  // namespace athanor
