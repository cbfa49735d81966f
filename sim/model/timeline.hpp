// SPDX-License-Identifier: Apache-2.0
// Timeline: start and end of every operation, predicted or measured, with the same operation names.
#pragma once

#include "sim/model/program.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// One operation's execution, in seconds since the timeline's origin.
struct Interval {
  std::int32_t operation = 0;  ///< index into Program::operations
  std::int32_t rank = 0;
  std::int32_t step = 0;
  Seconds start = 0;
  Seconds end = 0;
  Seconds issue_start = 0;  ///< time in which the host launched it; equal where running is issuing
  Seconds issue_end = 0;
};

/// Power draw of a rank's device from `start` until its next entry.
struct PowerLevel {
  std::int32_t rank = 0;
  Seconds start = 0;
  double watts = 0;
};

/// Execution of one or more steps on all ranks.
struct Timeline {
  bool predicted = false;
  std::vector<Interval> intervals;
  std::vector<PowerLevel> power;  ///< by rank and time; empty: not known
  Seconds step_seconds = 0;       ///< period of the repeated program in steady state
  double step_joules = 0;         ///< energy of all devices in that time; 0: not known
  TierBytes peak_bytes;
};

}  // namespace athanor
