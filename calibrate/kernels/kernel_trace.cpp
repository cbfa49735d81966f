// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kernels/kernel_trace.hpp"

namespace athanor {

const char* unit_phase_name(UnitPhase phase) noexcept {
  switch (phase) {
    case UnitPhase::ForwardKeep:
      return "forward";
    case UnitPhase::ForwardDiscard:
      return "forward without autograd";
    case UnitPhase::Recompute:
      return "recompute";
    case UnitPhase::Backward:
      return "backward";
  }
  return "unknown";
}

const LaunchOrigin* KernelTrace::origin_of(const TracedActivity& activity) const noexcept {
  if (activity.origin == 0 || activity.origin > origins.size()) return nullptr;
  return &origins[activity.origin - 1];
}

Seconds KernelTrace::overhead() const noexcept {
  Seconds total = 0;
  for (const TracedActivity& activity : activities) {
    if (activity.kind == ActivityKind::Overhead) total += activity.seconds();
  }
  return total;
}

}  // namespace athanor
