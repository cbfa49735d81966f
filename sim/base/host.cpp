// SPDX-License-Identifier: Apache-2.0
#include "sim/base/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <limits>
#include <thread>

namespace athanor {
namespace {

/// Memory limit of the control group; the largest number where the file is absent or says "max".
Bytes control_group_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  Bytes limit = 0;
  return file >> limit && limit > 0 ? limit : std::numeric_limits<Bytes>::max();
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Bytes usable_memory() {
  const Bytes physical = Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return std::min(physical, control_group_limit());
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace athanor
