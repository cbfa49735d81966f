// SPDX-License-Identifier: Apache-2.0
// The work of each lane on the CPU backend, as functions that can be repeated: the executor's own
// code on random data.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace athanor {

/// One repetition of some work. Owns its buffers.
using Activity = std::function<void()>;

/// Returns `elements` normally distributed values that depend on `seed` alone.
[[nodiscard]] std::vector<float> random_floats(std::int64_t elements, unsigned seed);

/// Copies `bytes`, as h2d and d2h of the CPU backend do.
[[nodiscard]] Activity copy_activity(Bytes bytes);
/// Adds gradients to `bytes` of fp32 sums, as the CPU backend's d2h does.
[[nodiscard]] Activity add_activity(Bytes bytes);
/// Updates `elements` in place by AdamW.
[[nodiscard]] Activity adam_activity(std::int64_t elements, int threads);
/// Updates `elements` by AdamW from one state into another, which leaves the old state as it was.
[[nodiscard]] Activity adam_beside_activity(std::int64_t elements, int threads);
/// Sums the squares of `elements` values.
[[nodiscard]] Activity square_sum_activity(std::int64_t elements);
/// Does what one rank's processor does in a collective: copies its part to where other ranks read
/// it, and adds theirs.
[[nodiscard]] Activity collective_activity(Bytes bytes);

/// Returns the activity that stands for `lane` when contention is measured. A repetition takes some
/// milliseconds. Throws Error for lanes of files; see measure_file_pairs().
[[nodiscard]] Activity lane_activity(Lane lane, int compute_threads);

}  // namespace athanor
