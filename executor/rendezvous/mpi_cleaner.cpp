// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/mpi_cleaner.hpp"

#include "executor/rendezvous/interrupts.hpp"
#include "executor/rendezvous/process_watch.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace athanor {
namespace {

/// A process that is known even after its end, when its number may be another's.
struct Known {
  pid_t process = 0;
  Descriptor descriptor;
  Seconds running_at = 0;  ///< when it was last seen running
  Seconds alive_at = 0;    ///< when it was last seen, running or stopped
};

Known know(pid_t process) {
  return {process, Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)))};
}

bool has_ended(const Known& known, int wait_ms) {
  pollfd ended{.fd = known.descriptor.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, wait_ms) > 0;
}

/// The first process of a container cannot be killed from inside. An mpirun there takes SIGTERM,
/// and ends at once when it comes again and again.
void kill_known(const Known& known) {
  const int signal = known.process == 1 ? SIGTERM : SIGKILL;
  ::syscall(SYS_pidfd_send_signal, known.descriptor.get(), signal, nullptr, 0);
}

/// Notes that the process is there. Returns whether it has been stopped for longer than `limit`.
bool stays_stopped(Known& known, Seconds limit, Seconds now) {
  known.alive_at = now;
  if (!is_stopped(known.process)) known.running_at = now;
  return now - known.running_at > limit;
}

/// Writes where the rank writes its errors. The file is opened only now: a pipe that the cleaner
/// held open would keep the rank's launcher from ending.
void say_as(const Known& rank, const std::string& text) {
  const std::string errors = fmt::format("/proc/{}/fd/{}", rank.process, STDERR_FILENO);
  const Descriptor file(::open(errors.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC));
  [[maybe_unused]] const auto written = ::write(file.get(), text.data(), text.size());
}

void end_stopped_rank(const Known& rank, Seconds limit) {
  say_as(rank, fmt::format("athanor: rank {} (process {}) has been stopped for {} s, and no other "
                           "rank is left to end it; it is killed\n",
                           environment_variable("OMPI_COMM_WORLD_RANK"), rank.process, limit));
  kill_known(rank);
}

/// Whether the process starts the ranks of one program alone, so that it has nothing left to do
/// once they have ended.
bool serves_one_program(pid_t launcher) {
  return is_mpi_launcher(launcher) && environment_variable("OMPI_NUM_APP_CTX") == "1";
}

/// Waits until the launcher has ended. Ends it, or the rank, where that stays stopped; and where it
/// stays behind after its ranks, as with a broken network.
void wait_for_end(Known& launcher, Known& rank) {
  constexpr int kPeriodMs = 500;
  constexpr Seconds kStaysBehind = 10;
  // Other ranks, which can say so, come first: even for a rank that never came to them.
  constexpr Seconds kStoppedRank = kArrival + 3;
  const bool may_end_it = serves_one_program(launcher.process);
  PatientClock clock;
  while (!has_ended(launcher, kPeriodMs)) {
    const Seconds now = clock.now();
    if (stays_stopped(launcher, kLongSilence, now)) kill_known(launcher);
    if (has_ended(rank, 0)) {
      if (may_end_it && now - rank.alive_at > kStaysBehind) kill_known(launcher);
    } else if (stays_stopped(rank, kStoppedRank, now)) {
      end_stopped_rank(rank, kStoppedRank);
    }
  }
}

/// Replaces the command line of this process by `title`. A user who ends a job by its command line
/// (`pkill -f`) would end the cleaner with it. Where /proc does not tell its address, it stays.
void replace_command_line(std::string_view title) {
  constexpr int kStart = 48, kEnd = 49;  // fields of proc_pid_stat(5)
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::uintptr_t start = 0, end = 0;
  std::string field;
  for (int number = 3; number <= kEnd && fields >> field; ++number) {
    std::uintptr_t& to = number == kStart ? start : end;
    if (number >= kStart) std::from_chars(field.data(), field.data() + field.size(), to);
  }
  if (start == 0 || end <= start) return;
  const std::span line(reinterpret_cast<char*>(start), end - start);
  std::ranges::fill(line, '\0');
  std::ranges::copy(title.substr(0, line.size() - 1), line.begin());
}

/// Becomes a process on its own, which keeps no file and no pipe of the job open.
void leave_job() {
  ::setsid();
  ::prctl(PR_SET_NAME, "athanor-cleaner");
  replace_command_line("athanor-cleaner");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  ::close_range(0, ~0U, 0);
}

/// Waits until the new process has left the job, which closes its end of the pipe. One that is
/// stopped before would hold the job's pipes open, and the launcher would wait for them.
pid_t see_off(pid_t process, const Descriptor& tie, Descriptor other_end) {
  constexpr int kPatienceMs = 2000;
  other_end.close();
  pollfd gone{.fd = tie.get(), .events = POLLIN, .revents = 0};
  if (process < 0 || ::poll(&gone, 1, kPatienceMs) > 0) return process;
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  return -1;
}

}  // namespace

pid_t start_cleaner(pid_t launcher, const MpiLeftovers& leftovers) {
  const pid_t starter = ::getpid();
  std::array<int, 2> tie{-1, -1};
  if (::pipe2(tie.data(), O_CLOEXEC) != 0) return -1;
  const HeldInterrupts
      held;  // or a signal to all processes could end the child before it ignores it
  const pid_t process = ::fork();
  if (process != 0) return see_off(process, Descriptor(tie[0]), Descriptor(tie[1]));
  leave_job();
  Known known_launcher = know(launcher);
  Known known_rank = know(starter);
  if (known_launcher.descriptor.is_open() && known_rank.descriptor.is_open()) {
    wait_for_end(known_launcher, known_rank);
  }
  // Ranks end with their launcher; they may still hold segments for a moment.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  remove_leftovers(leftovers);
  ::_exit(0);
}

}  // namespace athanor
