// SPDX-License-Identifier: Apache-2.0
// The results of one training step, and of an evaluation after it.
#pragma once

#include "sim/base/quantities.hpp"

#include <cmath>
#include <cstdint>
#include <optional>

namespace athanor {

/// The model after a step, on held-out data.
struct EvaluationReport {
  double loss = 0;  ///< mean over all targets
  std::int64_t num_targets = 0;
  Seconds seconds = 0;

  [[nodiscard]] double perplexity() const { return std::exp(loss); }
};

struct StepReport {
  std::int64_t step = 0;                ///< 1 for the first step of training
  double loss = 0;                      ///< mean over the global batch
  std::optional<double> gradient_norm;  ///< before clipping; only if the plan clips
  double learning_rate = 0;
  Seconds seconds = 0;          ///< from the end of the step before, or from its own start
  Bytes device_peak_bytes = 0;  ///< peak of this rank so far
  std::optional<EvaluationReport> evaluation = std::nullopt;
};

}  // namespace athanor
