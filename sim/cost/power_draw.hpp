// SPDX-License-Identifier: Apache-2.0
// Power draw of operations, and how a device's power limit throttles them.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace athanor {

/// Power draw of one operation, alone on its device.
struct PowerDraw {
  Seconds seconds = 0;  ///< unthrottled
  double watts = 0;     ///< above idle, unthrottled
  /// Under a limit the watts above idle follow speed^exponent; 0: a limit does not throttle it.
  double exponent = 0;

  /// Share of the unthrottled speed at which it draws at most `watts_above_idle`; 1 if it draws
  /// less.
  [[nodiscard]] double speed_at(double watts_above_idle) const noexcept;
};

/// Watts above idle that the lowest limit allows for ever.
[[nodiscard]] double sustained_watts(const PowerModel& power) noexcept;

/// Returns the power draw of every operation of `program`, by operation index; `seconds` are its
/// solo_seconds(). A unit's phase takes its unthrottled time from the profile, and an exponent that
/// makes it take its sustained_seconds() at the lowest limit. Everything else takes its solo
/// seconds, under a limit or not. Without Platform::power nothing draws.
[[nodiscard]] std::vector<PowerDraw> power_draws(const Program& program, const Platform& platform,
                                                 const std::vector<Seconds>& seconds);
/// Returns the power draw of one operation.
[[nodiscard]] PowerDraw power_draw(const Operation& op, Seconds seconds, const Platform& platform);

/// Adds `kernel` to one of `kernels` that draws the same, if there is one.
void add_kernel(std::vector<PowerDraw>& kernels, const PowerDraw& kernel);

/// Multipliers of energy: the share of a second's cost that its energy has when it is drawn at the
/// lowest limit. Time has the rest. Matrix products on H100s cost least where they are throttled
/// from about 0.35 on: above that, what lanes that wait cost is lost.
inline constexpr std::array kEnergyMultipliers{0.0, 0.375, 0.5, 0.75, 1.0};

/// Lower bounds on the time that some work adds to a step, one for each multiplier of
/// kEnergyMultipliers: Lagrangian bounds on the shortest time in which the work can be done with
/// the energy of the lowest limit. Whatever the order of operations, a step in steady state takes
/// at least the sum over its work, at any one multiplier. At the first, energy is free and kernels
/// take their unthrottled time; at the last, time is free.
struct LagrangianBound {
  std::array<Seconds, kEnergyMultipliers.size()> at{};

  LagrangianBound& operator+=(const LagrangianBound& other) noexcept;
  [[nodiscard]] Seconds unthrottled() const noexcept { return at.front(); }
  /// The energy term of at[multiplier] alone, for work that is not on the critical path.
  [[nodiscard]] Seconds energy(std::size_t multiplier) const noexcept {
    return kEnergyMultipliers[multiplier] * at.back();
  }
  [[nodiscard]] Seconds most() const noexcept;  ///< the best of these bounds
};
/// Returns a lower bound on consecutive parts of a step, each at its best multiplier. A part can
/// hand the next at most the energy in the lowest limit's budget: its power times its window.
[[nodiscard]] Seconds consecutive_seconds(std::span<const LagrangianBound> parts,
                                          const Platform& platform);
/// Returns the bound of one kernel, which runs unthrottled or draws one of the limits.
[[nodiscard]] LagrangianBound lagrangian_bound(const PowerDraw& kernel, const Platform& platform);

}  // namespace athanor
