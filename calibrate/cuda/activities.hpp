// SPDX-License-Identifier: Apache-2.0
// Work of one GPU's lanes on random data: matrix products and copies.
#pragma once

#include "calibrate/activities/device_activity.hpp"
#include "calibrate/cuda/rotating_host_buffer.hpp"
#include "sim/base/quantities.hpp"

#include <ATen/ATen.h>

#include <cstdint>

namespace athanor {

/// Returns normally distributed bf16 values on `device`. Constant data would draw less power.
[[nodiscard]] at::Tensor random_bf16(int device, Bytes bytes);

/// Multiplies two bf16 matrices of [size, size].
[[nodiscard]] ActivityPtr cuda_matmul(int device, std::int64_t size);
/// Copies `bytes` between the device and the next slice of `host`.
[[nodiscard]] ActivityPtr cuda_copy_h2d(int device, RotatingHostBuffer host, Bytes bytes);
[[nodiscard]] ActivityPtr cuda_copy_d2h(int device, RotatingHostBuffer host, Bytes bytes);
/// Copies `bytes` within the device, which is all that is left of a collective with one rank.
[[nodiscard]] ActivityPtr cuda_local_copy(int device, Bytes bytes);

}  // namespace athanor
