// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/process_watch.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace athanor {

bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  // "123 (name) T ..": a name may hold anything, so the state follows the last bracket.
  const std::size_t bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= line.size()) return false;
  return line[bracket + 2] == 'T';
}

int pending_interrupt(pid_t process) {
  constexpr std::string_view kField = "ShdPnd:";
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kField)) continue;
    const std::uint64_t pending = std::stoull(line.substr(kField.size()), nullptr, 16);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      if ((pending >> (signal - 1) & 1U) != 0) return signal;
    }
  }
  return 0;
}

Seconds PatientClock::now() {
  constexpr Seconds kLongestPeriod = 1;
  const std::chrono::duration<double> time = std::chrono::steady_clock::now().time_since_epoch();
  if (last_ > 0) watched_ += std::min(time.count() - last_, kLongestPeriod);
  last_ = time.count();
  return watched_;
}

}  // namespace athanor
