// SPDX-License-Identifier: Apache-2.0
#include "calibrate/device/other_work.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace athanor {
namespace {

constexpr int kLooks = 5;        // training pauses between steps: one look may meet a pause
constexpr int kBusyPercent = 5;  // a desktop that is drawn now and then stays below

}  // namespace

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
