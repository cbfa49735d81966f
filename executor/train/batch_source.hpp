// SPDX-License-Identifier: Apache-2.0
// The source of training data.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <functional>

namespace athanor {

/// Returns samples [first, first + count) of an endless stream, as host tensors. The result must be
/// a function of the arguments alone, so that every split of a global batch into ranks and
/// micro-batches, and every resumed run, sees the same data. Called on the compute lane's thread.
using BatchSource = std::function<Batch(std::int64_t first, std::int64_t count)>;

}  // namespace athanor
