// SPDX-License-Identifier: Apache-2.0
// Bursts of matrix products on random data with pauses between them, each timed by events.
#pragma once

#include "calibrate/power/power_fit.hpp"

#include <cstdint>

namespace athanor {

class GpuCounters;

/// Runs bf16 products of [size, size] in bursts of `on` seconds with pauses of `off` seconds (0:
/// one burst), for `seconds` in all, after a settling time. `watts` stays 0 without an energy
/// counter.
[[nodiscard]] KernelBursts matmul_bursts(int device, std::int64_t size, Seconds on, Seconds off,
                                         Seconds seconds, const GpuCounters& energy);

}  // namespace athanor
