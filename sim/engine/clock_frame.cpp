// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/clock_frame.hpp"

#include "sim/base/errors.hpp"

#include <algorithm>
#include <cmath>

namespace athanor {
namespace {

/// SimGrid treats dates closer than 1e-9 as one; from 2^24 on doubles are further apart than that.
constexpr int kFirstExponent = 24;
constexpr int kLastExponent = 1000;
/// Share of an interval that a horizon takes, and grid of the origins, as powers of two.
constexpr int kRoomBits = 8;
constexpr int kGridBits = 20;
/// Largest exponent of the scale; above it the inverse would be no normal number.
constexpr int kMostScaleBits = 1020;

}  // namespace

ClockFrame next_clock_frame(double now, Seconds horizon) {
  int exponent = kFirstExponent;
  if (now >= std::ldexp(1.0, kFirstExponent)) exponent = std::ilogb(now);
  const double grid = std::ldexp(1.0, exponent - kGridBits);
  double origin = std::max(std::ldexp(1.0, exponent), std::ceil(now / grid) * grid);
  if (origin + std::ldexp(1.0, exponent - kRoomBits) > std::ldexp(1.0, exponent + 1)) {
    origin = std::ldexp(1.0, ++exponent);
  }
  if (exponent > kLastExponent) {
    throw Error(
        "the simulator's clock is used up after hundreds of thousands of replays; "
        "continue in a new process");
  }
  int horizon_exponent = 0;
  std::frexp(horizon, &horizon_exponent);
  const int scale_bits = std::min(exponent - kRoomBits - horizon_exponent, kMostScaleBits);
  return {origin, exponent, std::ldexp(1.0, scale_bits), std::ldexp(1.0, -scale_bits)};
}

}  // namespace athanor
