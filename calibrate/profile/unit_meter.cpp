// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/unit_meter.hpp"

#include "calibrate/bench/measure.hpp"
#include "executor/units/arena_scope.hpp"

namespace athanor {

PhaseCost UnitMeter::cost_of(const PhaseSamples& phase) const {
  const Seconds seconds = settling() > 0 ? phase.device.mean() : phase.device.median();
  return {seconds, phase.device.interquartile_range(), phase.peak, phase.issue.median()};
}

void HostMeter::run(const std::function<void()>& body) {
  const ArenaScope scope(arena_);
  body();
}

void HostMeter::time(PhaseSamples& phase, const std::function<void()>& body) {
  const ArenaScope scope(arena_);
  const Bytes before = arena_.live();
  arena_.reset_peak();
  phase.device.add(time_once(body));
  phase.peak = arena_.peak() - before;
}

}  // namespace athanor
