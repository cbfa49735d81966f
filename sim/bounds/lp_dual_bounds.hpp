// SPDX-License-Identifier: Apache-2.0
// How much work lanes can do together that slow each other down and draw on one power limit.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/cost/contention.hpp"
#include "sim/cost/power_draw.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace athanor {

/// Weights with which a device does no more than one weighted second of work in a second, on
/// average over a step in steady state: whatever the order of operations, a step takes at least the
/// weighted sum of its work. They solve the dual of the linear program that divides a step's time
/// between states of the device: which lanes run, and which limit's budget is empty. In that
/// program energy has a price: a second costs 1 - share, and the energy of one at the lowest limit
/// the rest.
struct DualBound {
  std::size_t multiplier = 0;  ///< of energy: index into kEnergyMultipliers
  /// Of a second of each lane's work. The compute lane's is of what draws Platform::power's watts
  /// of that lane and is not slowed by a limit.
  LaneValues weights{};
  /// Of a second of one lane's work, but the compute lane's, during which kernels that count for
  /// nothing may run and others do not.
  LaneValues idle_weights{};

  /// What a second of kernels is worth while some other lanes run: at full clock, and slowed until
  /// they draw one of the limits.
  struct AtFullClock {
    double weight = 0, per_watt = 0;
  };
  struct Slowed {
    double watts = 0, weight = 0;
  };
  std::vector<AtFullClock> at_full_clock;
  std::vector<Slowed> slowed;

  /// Of a second at full clock of kernels like this one. Negative where what runs beside them is
  /// worth more than the time.
  [[nodiscard]] double weight(const PowerDraw& kernel) const noexcept;
};

/// For any three lanes the vertices of that dual at each price of kEnergyMultipliers, so that for
/// three lanes and free energy the largest sum is the program's optimum. At other prices one lane
/// is the compute lane and runs the platform's matrix products. Empty where neither lanes nor
/// limits slow anything down.
[[nodiscard]] std::vector<DualBound> lp_dual_bounds(const ContentionModel& contention,
                                                    const std::optional<PowerModel>& power);

}  // namespace athanor
