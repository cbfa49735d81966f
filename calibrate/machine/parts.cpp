// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/parts.hpp"

#include <cmath>
#include <cstdint>

namespace athanor {

void run_parts(const std::vector<CalibrationPart>& parts, const OnProgress& progress) {
  constexpr double kMilliseconds = 1e3;
  Seconds total = 0, before = 0;
  for (const CalibrationPart& part : parts) total += part.expected;
  const auto ticks = [](Seconds seconds) { return std::llround(kMilliseconds * seconds); };
  for (const CalibrationPart& part : parts) {
    const auto advance = [&](double share) {
      if (progress) progress(part.name, ticks(before + share * part.expected), ticks(total));
    };
    advance(0);
    part.measure(advance);
    before += part.expected;
  }
}

}  // namespace athanor
