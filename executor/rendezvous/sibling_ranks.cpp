// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/sibling_ranks.hpp"

#include "executor/rendezvous/process_watch.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Returns the processes that any thread of `parent` has started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  const fs::path tasks = fs::path("/proc") / std::to_string(parent) / "task";
  for (fs::directory_iterator task(tasks, error); !error && task != fs::directory_iterator();
       task.increment(error)) {
    std::ifstream file(task->path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

std::string environment_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::optional<pid_t> stopped_rank(pid_t launcher, int rank) {
  for (const pid_t child : children_of(launcher)) {
    if (is_stopped(child) && rank_in(environment_of(child)) == rank) return child;
  }
  return std::nullopt;
}

}  // namespace athanor
