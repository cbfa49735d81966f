// SPDX-License-Identifier: Apache-2.0
// Places a replay on SimGrid's clock so that replays of one program agree to the bit.
//
// SimGrid's clock only grows, and a double loses absolute precision as it does. Two things keep
// every replay's arithmetic the same. Within [2^e, 2^(e+1)) the spacing of doubles is constant, so
// moving the origin by whole multiples of it changes no rounding. A power of two as scale of time
// changes exponents, never bits. So a whole replay is put into one such interval, and the next
// interval is taken when one is used up.
#pragma once

#include "sim/base/quantities.hpp"

namespace athanor {

/// One such interval: clock = origin + seconds * scale, with 2^exponent <= clock < 2^(exponent + 1)
/// and a power of two as scale.
struct ClockFrame {
  double origin = 0;
  int exponent = 0;
  double scale = 1, inverse_scale = 1;
  [[nodiscard]] double to_clock(Seconds duration) const noexcept { return duration * scale; }
  [[nodiscard]] Seconds to_duration(double on_clock) const noexcept {
    return on_clock * inverse_scale;
  }
  [[nodiscard]] Seconds to_seconds(double clock) const noexcept {
    return to_duration(clock - origin);
  }
};

/// Returns a frame that starts at `now` or later and has room for `horizon` seconds, resolved to
/// 2^-44 of it. An interval serves at least 2^8 replays, and all intervals more than 200,000.
/// Throws Error when all are used up.
[[nodiscard]] ClockFrame next_clock_frame(double now, Seconds horizon);

}  // namespace athanor
