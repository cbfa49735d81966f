// SPDX-License-Identifier: Apache-2.0
// Matrix products on the host, which stand for the CPU backend's compute lane.
#pragma once

#include "calibrate/activities/activities.hpp"

#include <cstdint>

namespace athanor {

/// Multiplies two fp32 matrices of [size, size] with LibTorch on `threads` host threads.
[[nodiscard]] Activity matmul_activity(std::int64_t size, int threads);

}  // namespace athanor
