// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power/unthrottled.hpp"

#include <algorithm>

namespace athanor {
namespace {

/// Returns the cost of the largest micro-batch of the class with unthrottled times, or null.
const UnitCost* largest_measured(const std::vector<UnitCost>& costs, const UnitCost& cost) {
  const UnitCost* largest = nullptr;
  for (const UnitCost& other : costs) {
    if (other.unit_class != cost.unit_class || other.backward.watts <= 0) continue;
    if (largest == nullptr || other.micro_batch > largest->micro_batch) largest = &other;
  }
  return largest;
}

}  // namespace

void measure_unthrottled(UnitCost& cost, const UnitCost& paused) {
  if (paused.backward.watts <= 0) return;
  for (const auto phase : kUnitPhases) {
    (cost.*phase).watts = (paused.*phase).watts;
    (cost.*phase).unthrottled_seconds =
        std::min((paused.*phase).unthrottled_seconds, (cost.*phase).seconds);
  }
}

void complete_unthrottled(std::vector<UnitCost>& costs) {
  for (UnitCost& cost : costs) {
    const UnitCost* measured = largest_measured(costs, cost);
    if (measured == nullptr || cost.backward.watts > 0) continue;
    for (const auto phase : kUnitPhases) {
      const PhaseCost& like = measured->*phase;
      if (like.seconds <= 0) continue;
      (cost.*phase).watts = like.watts;
      (cost.*phase).unthrottled_seconds =
          (cost.*phase).seconds * like.unthrottled_seconds / like.seconds;
    }
  }
}

}  // namespace athanor
