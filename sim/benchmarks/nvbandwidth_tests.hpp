// SPDX-License-Identifier: Apache-2.0
// Tests of nvbandwidth that a platform takes, from text or from JSON. Internal to this folder.
#pragma once

#include "sim/base/value_path.hpp"
#include "sim/model/platform.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct Measured {
  double slowest = 0;  ///< bytes per second
  int devices = 0;
  void add(double rate) {
    slowest = devices == 0 ? rate : std::min(slowest, rate);
    ++devices;
  }
};
using Tests = std::map<std::string, Measured, std::less<>>;

/// Whether a test copies between host and device, as platforms hold it.
[[nodiscard]] bool is_host_copy(std::string_view name);

/// Gives the platform the rates and slowdowns of the tests; returns a line for people per figure.
/// Throws InputError that names `place` where there are none.
std::vector<std::string> merge_nvbandwidth(const Tests& tests, const std::string& version,
                                           const ValuePath& place, Platform& platform);

}  // namespace athanor
