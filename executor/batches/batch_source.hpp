// SPDX-License-Identifier: Apache-2.0
// The sources of training data and of data held out from it.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <functional>

namespace athanor {

/// Returns samples [first, first + count) of an endless stream, as host tensors. The result must be
/// a function of the arguments alone, so that every split of a global batch into ranks and
/// micro-batches, and every resumed run, sees the same data. Called on the compute lane's thread.
using BatchSource = std::function<Batch(std::int64_t first, std::int64_t count)>;

/// A finite set of samples to evaluate a model on.
struct EvaluationSource {
  std::int64_t num_samples = 0;
  /// Samples at num_samples and behind fill up micro-batches and must add nothing to the loss. A
  /// batch with a packing sets its mean_targets so that the loss is the mean over its own targets.
  BatchSource batches;
  /// Returns the number of targets of samples [first, first + count), none behind num_samples.
  std::function<std::int64_t(std::int64_t first, std::int64_t count)> num_targets;
};

}  // namespace athanor
