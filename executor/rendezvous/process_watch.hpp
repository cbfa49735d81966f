// SPDX-License-Identifier: Apache-2.0
// The state of a process as another sees it without its help, and a clock for patience.
#pragma once

#include "sim/base/quantities.hpp"

#include <sys/types.h>

namespace athanor {

/// Whether the process is stopped (SIGSTOP, SIGTSTP). False where it is unknown.
[[nodiscard]] bool is_stopped(pid_t process);

/// Returns SIGTERM, SIGINT or SIGHUP where the process was sent it and blocks it; 0: none.
[[nodiscard]] int pending_interrupt(pid_t process);

/// Measures the time during which this process ran as it should. A virtual machine that stands
/// still, or a job that is suspended, makes no other process late.
class PatientClock {
 public:
  /// Returns the time since construction. Of the time since the last call, at most a second counts.
  [[nodiscard]] Seconds now();

 private:
  double last_ = 0;
  Seconds watched_ = 0;
};

/// How long a process must be silent or stopped before it counts as failed. Ranks notice first, so
/// that they can say it; launchers later, in case no rank is left to say anything.
inline constexpr Seconds kSilence = 12;
inline constexpr Seconds kLongSilence = 18;
/// Time in which all ranks of a job have to come, from the first one on.
inline constexpr Seconds kArrival = 22;
/// Period of heartbeats.
inline constexpr Seconds kHeartbeat = 0.5;

}  // namespace athanor
