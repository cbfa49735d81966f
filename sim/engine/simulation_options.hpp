// SPDX-License-Identifier: Apache-2.0
// What a simulation is asked for.
#pragma once

#include "sim/model/lane.hpp"

#include <array>

namespace athanor {

struct SimulationOptions {
  int max_steps = 12;              ///< gives up settling after this many
  double settle_tolerance = 1e-9;  ///< of the period: how far times may be from repeating
  bool record_intervals = true;    ///< off for search: only step_seconds and peak_bytes
  /// What if: how many times faster each lane is, and with it its part of what it shares, and how
  /// many times faster the host issues. Above 0.
  std::array<double, kNumLanes> lane_speed = [] {
    std::array<double, kNumLanes> as_it_is{};
    as_it_is.fill(1);
    return as_it_is;
  }();
  double issue_speed = 1;
};

}  // namespace athanor
