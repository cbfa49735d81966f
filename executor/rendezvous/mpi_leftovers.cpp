// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/mpi_leftovers.hpp"

#include "executor/rendezvous/process_watch.hpp"
#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSharedMemory = "/dev/shm";

std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// A process that is known even after its end, when its number may be another's.
struct Known {
  pid_t process = 0;
  Descriptor descriptor;
  Seconds running_at = 0;
};

Known know(pid_t process) {
  return {process, Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))), 0};
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

void end_if_stopped(Known& known, Seconds limit, Seconds now) {
  if (!is_stopped(known.process)) known.running_at = now;
  if (now - known.running_at > limit) kill_known(known);
}

/// Whether the process starts the ranks of one program alone, so that it has nothing left to do
/// once they have ended.
bool serves_one_program(pid_t launcher) {
  return is_mpi_launcher(launcher) && variable("OMPI_NUM_APP_CTX") == "1";
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
    end_if_stopped(launcher, kLongSilence, now);
    if (has_ended(rank, 0)) {
      if (may_end_it && now - rank.running_at > kStaysBehind) kill_known(launcher);
    } else {
      end_if_stopped(rank, kStoppedRank, now);
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

constexpr std::string_view kSessionFolder = "athanor-mpi-";

std::vector<std::string> places_of_session_folders() {
  std::error_code error;
  return {kSharedMemory, fs::temp_directory_path(error).string()};
}

/// Whether the folder is this user's, was made a while ago, and no launcher holds it any more. The
/// lock tells so across containers, where process numbers do not.
bool is_abandoned(const fs::path& folder) {
  constexpr time_t kJustMade = 60;  // seconds: its launcher may not hold it yet
  struct stat status{};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  if (status.st_uid != ::geteuid() || ::time(nullptr) - status.st_mtime < kJustMade) return false;
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return opened.is_open() && ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

bool is_mpi_launcher(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  constexpr std::array<std::string_view, 5> kLaunchers{"mpirun", "mpiexec", "orterun", "orted",
                                                       "prterun"};
  return std::ranges::find(kLaunchers, name) != kLaunchers.end();
}

std::optional<MpiLeftovers> leftovers_from_environment() {
  const std::string_view folder = variable("OMPI_MCA_orte_jobfam_session_dir");
  const std::string_view job = variable("PMIX_NAMESPACE");
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (folder.empty() || error != std::errc()) return std::nullopt;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return MpiLeftovers{std::string(folder), kSharedMemory,
                      fmt::format("vader_segment.{}.{}.{:x}.", host.data(), ::geteuid(), number)};
}

MpiLeftovers make_session_folder() {
  const std::vector<std::string> places = places_of_session_folders();
  for (const std::string& place : places) {
    std::string name = fmt::format("{}/{}{}-XXXXXX", place, kSessionFolder, ::getpid());
    if (::mkdtemp(name.data()) != nullptr) return {name, {}, {}};
  }
  throw Error(
      fmt::format("no folder for MPI in {}: {}", fmt::join(places, " or "), std::strerror(errno)));
}

Descriptor hold_session_folder(const std::string& folder) {
  Descriptor held(::open(folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (held.is_open()) ::flock(held.get(), LOCK_SH | LOCK_NB);
  return held;
}

void remove_abandoned_session_folders() noexcept {
  std::error_code error;
  for (const std::string& place : places_of_session_folders()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(place, error)) {
      const fs::path& path = entry.path();
      if (!path.filename().string().starts_with(kSessionFolder) || !is_abandoned(path)) continue;
      fs::remove_all(path, error);
    }
  }
}

void remove_leftovers(const MpiLeftovers& leftovers) noexcept {
  std::error_code error;
  fs::remove_all(leftovers.folder, error);
  if (leftovers.segment_folder.empty()) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(leftovers.segment_folder, error)) {
    if (entry.path().filename().string().starts_with(leftovers.segment_prefix)) {
      fs::remove(entry.path(), error);
    }
  }
  // The folder of all jobs of this user. It goes when it is empty, as with mpirun.
  ::rmdir(fs::path(leftovers.folder).parent_path().c_str());
}

pid_t start_cleaner(pid_t launcher, const MpiLeftovers& leftovers) {
  const pid_t starter = ::getpid();
  const pid_t process = ::fork();
  if (process != 0) return process;
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
