// SPDX-License-Identifier: Apache-2.0
// What one GPU's lanes do, on random data.
#pragma once

#include "calibrate/activities/device_activity.hpp"
#include "calibrate/cuda/host_walk.hpp"
#include "sim/base/quantities.hpp"

#include <ATen/ATen.h>

#include <cstdint>

namespace athanor {

/// Normally distributed bf16 values on `device`: constant data would draw less power.
[[nodiscard]] at::Tensor random_bf16(int device, Bytes bytes);

[[nodiscard]] ActivityPtr cuda_matmul(int device, std::int64_t size);
/// `bytes` between the device and the next piece of `host`.
[[nodiscard]] ActivityPtr cuda_copy_h2d(int device, RotatingHostBuffer host, Bytes bytes);
[[nodiscard]] ActivityPtr cuda_copy_d2h(int device, RotatingHostBuffer host, Bytes bytes);
/// bf16 gradients on the device, added to `bytes` of fp32 sums in the next piece of `host`.
[[nodiscard]] ActivityPtr cuda_add_to_host(int device, RotatingHostBuffer host, Bytes bytes);
/// Within the device: what is left of a collective with one rank.
[[nodiscard]] ActivityPtr cuda_local_copy(int device, Bytes bytes);
[[nodiscard]] ActivityPtr cuda_adam(int device, std::int64_t elements);
[[nodiscard]] ActivityPtr cuda_square_sum(int device, std::int64_t elements);

}  // namespace athanor
