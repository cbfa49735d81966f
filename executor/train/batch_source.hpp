// SPDX-License-Identifier: Apache-2.0
// Where training data come from.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <functional>

namespace athanor {

/// Samples [first, first + count) of an endless stream, as host tensors. A function of its
/// arguments alone, so that every split of a global batch into ranks and micro-batches, and every
/// resumed run, sees the same data. Called on the compute lane's thread.
using BatchSource = std::function<Batch(std::int64_t first, std::int64_t count)>;

}  // namespace athanor
