// SPDX-License-Identifier: Apache-2.0
// What an operation draws, and how a device's power limit slows it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <vector>

namespace athanor {

/// One operation, alone on its device.
struct Draw {
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
/// phase runs at full clock as its profile has measured it, and its exponent makes it take the
/// profile's sustained seconds at the lowest limit. Everything else takes its solo seconds, under a
/// limit or not. Without Platform::power nothing draws.
[[nodiscard]] std::vector<Draw> draws(const Program& program, const Platform& platform,
                                      const std::vector<Seconds>& seconds);

/// The seconds that a phase of a unit adds to a step at full clock, and those that the power limit
/// makes of them. Whatever the order of operations, a step in steady state takes at least the sum
/// of the first over its phases, and at least the sum of the second: Lagrange's bound on the
/// shortest time in which the phases can be done with the limit's energy.
struct PoweredSeconds {
  Seconds full_clock = 0, limited = 0;
};
[[nodiscard]] PoweredSeconds powered_seconds(const Operation& op, const Platform& platform);

}  // namespace athanor
