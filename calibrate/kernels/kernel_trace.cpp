// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kernels/kernel_trace.hpp"

#include "sim/base/name_table.hpp"

namespace athanor {

const char* unit_phase_name(UnitPhase phase) noexcept {
  static constexpr NameTable<UnitPhase, kNumUnitPhases> kNames{
      {{"forward", UnitPhase::ForwardKeep},
       {"forward without autograd", UnitPhase::ForwardDiscard},
       {"recompute", UnitPhase::Recompute},
       {"backward", UnitPhase::Backward}}};
  return name_of(kNames, phase).data();
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
