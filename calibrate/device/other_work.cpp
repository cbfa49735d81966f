// SPDX-License-Identifier: Apache-2.0
#include "calibrate/device/other_work.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace athanor {
namespace {

constexpr int kLooks = 5;        // training pauses between steps: one look may meet a pause
constexpr int kBusyPercent = 5;  // a desktop that is drawn now and then stays below

/// Times of all processors together since the machine's start.
struct ProcessorTimes {
  double worked = 0, all = 0;
};

/// Reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and steal.
std::optional<ProcessorTimes> times_in(std::string_view stat) {
  constexpr std::size_t kTimes = 8, kIdle = 3, kIoWait = 4;
  std::istringstream line{std::string(stat.substr(0, stat.find('\n')))};
  std::string name;
  if (!(line >> name) || name != "cpu") return std::nullopt;
  ProcessorTimes times;
  for (std::size_t i = 0; i < kTimes; ++i) {
    double time = 0;
    if (!(line >> time)) return std::nullopt;
    times.all += time;
    if (i != kIdle && i != kIoWait) times.worked += time;
  }
  return times;
}

std::string read_stat() {
  std::ifstream file("/proc/stat");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::optional<double> working_share(std::string_view before, std::string_view after) {
  const auto first = times_in(before), last = times_in(after);
  if (!first || !last || last->all <= first->all) return std::nullopt;
  return (last->worked - first->worked) / (last->all - first->all);
}

std::string other_work_on_host(Seconds window) {
  constexpr double kFewestCores = 0.5;  // a service that wakes up now and then stays below
  const std::string before = read_stat();
  std::this_thread::sleep_for(std::chrono::duration<double>(window));
  const std::optional<double> share = working_share(before, read_stat());
  const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (!share || *share * cores < kFewestCores) return {};
  return fmt::format(
      "other processes kept {:.1f} of {:.0f} cores busy before anything was "
      "measured: what needs cores or memory looks slower than it is",
      *share * cores, cores);
}

std::string other_work(CudaCalibrator& cuda, int devices, Seconds pause) {
  std::vector<int> most(static_cast<std::size_t>(devices), 0);
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    for (int device = 0; device < devices; ++device) {
      int& percent = most[static_cast<std::size_t>(device)];
      percent = std::max(percent, cuda.utilization(device).value_or(0));
    }
  }
  std::vector<std::string> busy;
  for (int device = 0; device < devices; ++device) {
    const int percent = most[static_cast<std::size_t>(device)];
    if (percent >= kBusyPercent) {
      busy.push_back(fmt::format("GPU {} for {} % of the time", device, percent));
    }
  }
  if (busy.empty()) return {};
  return fmt::format(
      "other processes kept {} busy before anything was measured: what shares a GPU "
      "looks slower than it is. Measure again when they are done",
      fmt::join(busy, ", "));
}

}  // namespace athanor
