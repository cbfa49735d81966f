// SPDX-License-Identifier: Apache-2.0
#include "cli/common/memory_progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <utility>

namespace athanor::cli {

Bytes resident_bytes() {
  std::ifstream file("/proc/self/statm");
  Bytes all_pages = 0, resident_pages = 0;
  file >> all_pages >> resident_pages;
  return file ? resident_pages * ::sysconf(_SC_PAGESIZE) : 0;
}

MemoryProgress::MemoryProgress(Bytes expected, ProgressTarget target,
                               const std::function<Bytes()>& resident)
    : watch_([expected, target = std::move(target), resident,
              before = resident()](const std::stop_token& stop) {
        constexpr std::chrono::milliseconds kInterval{200};
        ProgressLine line(target);
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          line.update("reserving memory", std::clamp<Bytes>(resident() - before, 0, expected),
                      expected);
          changed.wait_for(lock, stop, kInterval, [] { return false; });
        }
      }) {}

}  // namespace athanor::cli
