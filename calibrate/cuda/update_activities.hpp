// SPDX-License-Identifier: Apache-2.0
// Updates on one GPU, by the executor's own kernels on random data. Each repetition takes the next
// slice of buffers that are larger than the GPU's caches, as a training step goes from chunk to
// chunk.
#pragma once

#include "calibrate/activities/device_activity.hpp"
#include "calibrate/cuda/rotating_host_buffer.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>

namespace athanor {

/// Updates `elements` by AdamW: bf16 gradient, fp32 state, bf16 parameters.
[[nodiscard]] ActivityPtr cuda_adam(int device, std::int64_t elements);
/// Sums the squares of `elements` bf16 gradients.
[[nodiscard]] ActivityPtr cuda_square_sum(int device, std::int64_t elements);
/// Adds bf16 gradients on the device to `bytes` of fp32 sums in the next slice of `host`.
[[nodiscard]] ActivityPtr cuda_add_to_host(int device, RotatingHostBuffer host, Bytes bytes);

}  // namespace athanor
