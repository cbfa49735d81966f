// SPDX-License-Identifier: Apache-2.0
// Lower bounds on work of lanes that contend and share a power limit: duals of a linear program.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/bounds/work_kinds.hpp"
#include "sim/cost/contention.hpp"
#include "sim/cost/power_draw.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace athanor {

/// Whether plain bounds have kEnergyMultipliers[multiplier].
[[nodiscard]] constexpr bool is_plain_multiplier(std::size_t multiplier) noexcept {
  return multiplier != 1;
}

/// Weights of work such that a step takes at least the weighted sum of its work, in any order of
/// operations. On average over a step in steady state, a device does at most one weighted second of
/// work per second. The weights are feasible for the dual of the linear program that divides a
/// step's time between states of the device: which lanes run, and which power limit's budget is
/// empty. With multiplier m a second costs 1 - m, and its energy at the lowest limit costs m.
struct DualBound {
  std::size_t multiplier = 0;  ///< index into kEnergyMultipliers
  /// Weight of one second of each kind of work; for the compute lane, of unthrottled work that
  /// draws PowerModel::lane_watts.
  WorkValues weights{};
  /// Weight of one second of a kind of work while only kernels run that count for nothing. The
  /// compute lane has none.
  WorkValues idle_weights{};
  /// Whether copies that add weigh what others do, and all but three lanes weigh nothing; and at a
  /// multiplier of which is_plain_multiplier holds. Plain bounds decide what is searched, so they
  /// stay as they are.
  bool is_plain = false;

  /// Weight of one second of kernels while some other lanes run: unthrottled, and throttled until
  /// they draw one of the limits.
  struct Unthrottled {
    double weight = 0, per_watt = 0;
  };
  struct Throttled {
    double watts = 0, weight = 0;
  };
  std::vector<Unthrottled> unthrottled;
  std::vector<Throttled> throttled;

  /// Weight of one unthrottled second of kernels like this one. Negative where the work that runs
  /// meanwhile weighs more than the time.
  [[nodiscard]] double weight(const PowerDraw& kernel) const noexcept;
};

/// Vertices of that dual for any three kinds of work, at each of kEnergyMultipliers, and what the
/// other kinds may weigh beside. For three kinds and free energy the largest sum is the program's
/// optimum. At other multipliers one lane is the compute lane and runs the platform's matrix
/// products. Plain bounds come first; in the others only `used` lanes have a weight. Empty where
/// neither lanes nor limits slow anything down.
[[nodiscard]] std::vector<DualBound> lp_dual_bounds(const ContentionModel& contention,
                                                    const std::optional<PowerModel>& power,
                                                    LaneSet used = kD2HAdds - 1);

}  // namespace athanor
