// SPDX-License-Identifier: Apache-2.0
#include "tests/train/job_processes.hpp"

#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace athanor::test {
namespace {

namespace fs = std::filesystem;

/// Returns nothing of a process that has ended. Reading its file fails, and an iterator over the
/// stream's buffer would throw.
std::string read_of(pid_t process, const std::string& name) {
  const std::ifstream file(fmt::format("/proc/{}/{}", process, name), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Whether the process waits for the end of a job to remove what MPI leaves.
bool is_cleaner(pid_t process) { return read_of(process, "comm") == "athanor-cleaner\n"; }

pid_t parent_of(pid_t process) {
  const std::string stat = read_of(process, "stat");
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string state;
  pid_t parent = 0;
  fields >> state >> parent;
  return parent;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    processes.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return processes;
}

std::vector<std::string> names_with(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) names.push_back(entry.path());
  }
  return names;
}

}  // namespace

std::vector<pid_t> processes_of(const std::string& run) {
  std::vector<pid_t> processes = all_processes();
  // Arguments end with a zero byte each.
  std::erase_if(processes, [&](pid_t process) {
    return !contains(read_of(process, "cmdline"), run + '\0') || state_of(process) == 'Z';
  });
  return processes;
}

std::string variable_of(pid_t process, const std::string& name) {
  const std::string variables = '\0' + read_of(process, "environ");
  const std::size_t at = variables.find('\0' + name + '=');
  if (at == std::string::npos) return {};
  return {&variables[at + name.size() + 2]};
}

char state_of(pid_t process) {
  const std::string stat = read_of(process, "stat");
  const std::size_t bracket = stat.rfind(')');
  return bracket == std::string::npos ? '?' : stat[bracket + 2];
}

namespace {

/// Returns the rank that mpirun or torchrun has told a process; empty: neither has.
std::string rank_told_to(pid_t process) {
  const std::string rank = variable_of(process, "OMPI_COMM_WORLD_RANK");
  return rank.empty() ? variable_of(process, "RANK") : rank;
}

}  // namespace

std::vector<pid_t> ranks_of(const std::string& run, int world_size) {
  std::vector<pid_t> ranks(static_cast<std::size_t>(world_size), 0);
  for (const pid_t process : processes_of(run)) {
    const std::string rank = rank_told_to(process);
    // A rank's own child is its cleaner, which has a name of its own only after a moment.
    const bool is_child_of_rank = rank_told_to(parent_of(process)) == rank;
    if (!rank.empty() && !is_child_of_rank && !is_cleaner(process)) {
      ranks.at(static_cast<std::size_t>(std::stol(rank))) = process;
    }
  }
  if (std::ranges::find(ranks, 0) != ranks.end()) return {};
  return ranks;
}

std::vector<pid_t> wait_for_steps(const std::string& run, int seconds, int world_size) {
  constexpr int kLooksPerSecond = 20, kFewestSteps = 4;
  for (int i = 0; i < seconds * kLooksPerSecond; ++i) {
    std::vector<pid_t> ranks = ranks_of(run, world_size);
    if (!ranks.empty() && num_steps(run) >= kFewestSteps) return ranks;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  FAIL("training did not start");
  return {};
}

pid_t mpirun_of(const std::string& run) {
  for (const pid_t process : processes_of(run)) {
    if (read_of(process, "comm") == "mpirun\n") return process;
  }
  return 0;
}

MpiFiles::MpiFiles(const std::string& run, pid_t launcher)
    : launcher_folder_(fmt::format("athanor-mpi-{}-", launcher)) {
  std::string of_run;
  for (const pid_t process : processes_of(run)) {
    const std::string job = variable_of(process, "PMIX_NAMESPACE");
    if (job.empty()) continue;
    of_run = job;
    session_folder_ = variable_of(process, "OMPI_MCA_orte_jobfam_session_dir");
    segments_ = fmt::format(".{:x}.", std::stoul(job));
  }
  has_cleaner_ = std::ranges::any_of(all_processes(), [&](pid_t process) {
    return is_cleaner(process) && !of_run.empty() &&
           variable_of(process, "PMIX_NAMESPACE") == of_run;
  });
}

std::vector<std::string> MpiFiles::left() const {
  std::vector<std::string> found = names_with("/dev/shm", launcher_folder_);
  for (const std::string& name : names_with("/tmp", launcher_folder_)) found.push_back(name);
  if (!session_folder_.empty() && fs::exists(session_folder_)) found.push_back(session_folder_);
  for (const std::string& name : names_with("/dev/shm", "vader_segment.")) {
    if (!segments_.empty() && contains(name, segments_)) found.push_back(name);
  }
  return found;
}

std::vector<std::string> MpiFiles::left_behind() const {
  constexpr int kLooks = 300;  // the cleaner may wait for a core where others use them all
  for (int i = 0; i < kLooks && !left().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return left();
}

namespace {

/// Waits until `find_left` finds no process, but no longer than `seconds`; returns what it found
/// last.
std::vector<pid_t> wait_for_none(const std::function<std::vector<pid_t>()>& find_left,
                                 double seconds) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto end = now() + std::chrono::duration<double>(seconds);
  std::vector<pid_t> left = find_left();
  while (!left.empty() && now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left = find_left();
  }
  return left;
}

bool has_ended(pid_t process) {
  const char state = state_of(process);
  return state == '?' || state == 'Z';
}

}  // namespace

std::vector<pid_t> wait_until_ended(std::vector<pid_t> processes, double seconds) {
  return wait_for_none(
      [&] {
        std::erase_if(processes, has_ended);
        return processes;
      },
      seconds);
}

std::string described(const std::vector<pid_t>& processes) {
  std::string text;
  for (const pid_t process : processes) {
    std::string command = read_of(process, "cmdline");
    std::ranges::replace(command, '\0', ' ');
    text += fmt::format("{} {} {}\n", process, state_of(process), command);
  }
  return text;
}

std::vector<pid_t> wait_until_gone(const std::string& run, double seconds) {
  return wait_for_none([&] { return processes_of(run); }, seconds);
}

}  // namespace athanor::test
