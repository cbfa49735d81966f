// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/mpi_leftovers.hpp"

#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSharedMemory = "/dev/shm";

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
  const std::string_view folder = environment_variable("OMPI_MCA_orte_jobfam_session_dir");
  const std::string_view job = environment_variable("PMIX_NAMESPACE");
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (folder.empty() || error != std::errc()) return std::nullopt;
  return MpiLeftovers{std::string(folder), kSharedMemory,
                      fmt::format("vader_segment.{}.{}.{:x}.", host_name(), ::geteuid(), number)};
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

}  // namespace athanor
