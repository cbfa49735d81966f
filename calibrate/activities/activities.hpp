// SPDX-License-Identifier: Apache-2.0
// What each lane does, as functions that can be repeated: the executor's own code on random data.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace athanor {

/// One repetition of something; owns its buffers.
using Activity = std::function<void()>;

[[nodiscard]] std::vector<float> random_floats(std::int64_t elements, unsigned seed);

/// h2d and d2h of the CPU backend.
[[nodiscard]] Activity copy_activity(Bytes bytes);
/// The CPU backend's d2h that adds gradients to `bytes` of fp32 sums.
[[nodiscard]] Activity add_activity(Bytes bytes);
[[nodiscard]] Activity adam_activity(std::int64_t elements, int threads);
[[nodiscard]] Activity adam_beside_activity(std::int64_t elements, int threads);
[[nodiscard]] Activity square_sum_activity(std::int64_t elements);
/// What one rank's processor does in a collective: its part goes to a place that others read, and
/// theirs is added.
[[nodiscard]] Activity collective_activity(Bytes bytes);
/// A product of two square fp32 matrices with LibTorch on `threads` host threads.
[[nodiscard]] Activity matmul_activity(std::int64_t size, int threads);

/// The activity that stands for `lane` when lanes are run beside each other. Milliseconds long.
[[nodiscard]] Activity lane_activity(Lane lane, int compute_threads);

}  // namespace athanor
