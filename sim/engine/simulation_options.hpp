// SPDX-License-Identifier: Apache-2.0
// Options of a simulation.
#pragma once

#include "sim/model/lane.hpp"

#include <array>
#include <vector>

namespace athanor {

struct SimulationOptions {
  int max_steps = 12;              ///< gives up settling after this many
  double settle_tolerance = 1e-9;  ///< share of the period by which times may differ from repeating
  bool record_intervals = true;    ///< off for search: only step_seconds and peak_bytes
  /// Factors for sensitivity: how many times faster each lane is, and with it its part of shared
  /// resources, and how many times faster the host issues. Above 0.
  std::array<double, kNumLanes> lane_speed = [] {
    std::array<double, kNumLanes> as_it_is{};
    as_it_is.fill(1);
    return as_it_is;
  }();
  double issue_speed = 1;
  /// How many times as long as its cost each operation takes, by its index; empty: 1 for all.
  std::vector<double> operation_scale = {};  // NOLINT(readability-redundant-member-init)
};

}  // namespace athanor
