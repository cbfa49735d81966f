// SPDX-License-Identifier: Apache-2.0
// Matrix products on random data with pauses between bursts, each timed by events.
#pragma once

#include "calibrate/power/power_fit.hpp"

#include <cstdint>

namespace athanor {

class EnergyCounter;

/// bf16 products of size x size: bursts of `on` seconds with pauses of `off` (0: one burst), for
/// `seconds` in all, after some to settle. `watts` stays 0 without a counter.
[[nodiscard]] KernelBursts matmul_bursts(int device, std::int64_t size, Seconds on, Seconds off,
                                         Seconds seconds, const EnergyCounter& energy);

}  // namespace athanor
