// SPDX-License-Identifier: Apache-2.0
// What an operation draws, and how a device's power limit slows it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace athanor {

/// One operation, alone on its device.
struct PowerDraw {
  Seconds seconds = 0;  ///< at full clock
  double watts = 0;     ///< above idle, at full clock
  /// Under a limit its watts above idle go with speed^exponent; 0: a limit does not slow it.
  double exponent = 0;

  /// Share of full speed at which it draws at most `watts_above_idle`; 1 where it draws less.
  [[nodiscard]] double speed_at(double watts_above_idle) const noexcept;
};

/// What the lowest limit leaves above idle.
[[nodiscard]] double sustained_watts(const PowerModel& power) noexcept;

/// Every operation of `program`, by operation index; `seconds` are its solo_seconds(). A unit's
/// phase runs at full clock as its profile has measured it, and its exponent makes it take its
/// sustained_seconds() at the lowest limit. Everything else takes its solo seconds, under a
/// limit or not. Without Platform::power nothing draws.
[[nodiscard]] std::vector<PowerDraw> power_draws(const Program& program, const Platform& platform,
                                                 const std::vector<Seconds>& seconds);
/// Of one operation.
[[nodiscard]] PowerDraw power_draw(const Operation& op, Seconds seconds, const Platform& platform);

/// Adds `kernel` to one of `kernels` that draws the same, if there is one.
void add_kernel(std::vector<PowerDraw>& kernels, const PowerDraw& kernel);

/// Prices of energy: what a second at the lowest limit costs by its energy, as a share of what it
/// costs in all.
inline constexpr std::array kEnergyMultipliers{0.0, 0.5, 0.75, 1.0};

/// The least that some work adds to a step, by each price of energy: Lagrange's bounds on the
/// shortest time in which it can be done with the energy of the lowest limit. Whatever the order of
/// operations, a step in steady state takes at least the sum over its work, at any one price. At
/// the first energy is free, and kernels take their time at full clock; at the last time is.
struct LagrangianBound {
  std::array<Seconds, kEnergyMultipliers.size()> at{};

  LagrangianBound& operator+=(const LagrangianBound& other) noexcept;
  [[nodiscard]] Seconds unthrottled() const noexcept { return at.front(); }
  /// Of that at one of the prices, what the energy alone costs: where the time is not waited for.
  [[nodiscard]] Seconds energy(std::size_t multiplier) const noexcept {
    return kEnergyMultipliers[multiplier] * at.back();
  }
  [[nodiscard]] Seconds most() const noexcept;  ///< the best of these bounds
};
/// Of the parts of a step, which follow each other, each at the price that bounds it best: all the
/// energy that one can leave to the next is what the lowest limit's budget holds, at most the
/// limit's for as long as its window.
[[nodiscard]] Seconds consecutive_seconds(std::span<const LagrangianBound> parts,
                                          const Platform& platform);
/// Of a kernel that runs at full clock, or draws one of the limits.
[[nodiscard]] LagrangianBound lagrangian_bound(const PowerDraw& kernel, const Platform& platform);

}  // namespace athanor
