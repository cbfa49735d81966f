// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/lane_threads.hpp"

#include <sched.h>
#include <sys/prctl.h>

namespace athanor {

void bind_compute_lane(int rank, int ranks, int threads) noexcept {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (ranks == 1 || sched_getaffinity(0, sizeof usable, &usable) != 0 ||
      CPU_COUNT(&usable) < ranks * threads) {
    return;
  }
  cpu_set_t own;
  CPU_ZERO(&own);
  int position = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable)) continue;
    if (position / threads == rank) CPU_SET(core, &own);
    ++position;
  }
  // A system that refuses runs the lane anywhere, as without this call.
  static_cast<void>(sched_setaffinity(0, sizeof own, &own));
}

void use_precise_sleeps() noexcept {
  constexpr unsigned long kNanoseconds = 1000;
  static_cast<void>(prctl(PR_SET_TIMERSLACK, kNanoseconds));
}

}  // namespace athanor
