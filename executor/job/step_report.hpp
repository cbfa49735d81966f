// SPDX-License-Identifier: Apache-2.0
// The results of one training step, and of an evaluation after it.
#pragma once

#include "sim/base/quantities.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

/// The model after a step, on held-out data.
struct EvaluationReport {
  double loss = 0;  ///< mean over all targets
  std::int64_t num_targets = 0;
  Seconds seconds = 0;

  [[nodiscard]] double perplexity() const { return std::exp(loss); }
};

/// Times of a run that goes on after its processes were killed.
struct RecoveryReport {
  std::string from;                ///< "memory" or "checkpoint"
  std::optional<Seconds> ending;   ///< from the first sign of the loss until all had ended
  std::optional<Seconds> restart;  ///< from then until the ranks had taken their memory
  Seconds load = 0;                ///< time to load state, updates that were cut off included
  Seconds first_step = 0;          ///< from then until a step was done
};

/// Change of the plan before a step.
struct PlanChangeReport {
  Seconds before = 0, after = 0;  ///< predicted steps, both with the run's own rates
  Seconds seconds = 0;            ///< from the end of a step to the start of the next
};

/// Times of a checkpoint.
struct CheckpointReport {
  std::int64_t step = 0;  ///< after which it was made
  Seconds stopped = 0;    ///< training stood while it was made, or its state copied
  Seconds waited = 0;     ///< training stood later on, until it was complete
  Seconds write = 0;      ///< from then on until it was complete, or all of it where training stood
};

struct StepReport {
  std::int64_t step = 0;                ///< 1 for the first step of training
  double loss = 0;                      ///< mean over the global batch
  std::optional<double> gradient_norm;  ///< before clipping; only if the plan clips
  double learning_rate = 0;
  Seconds seconds = 0;          ///< from the end of the step before, or from its own start
  Bytes device_peak_bytes = 0;  ///< peak of this rank so far
  Bytes graph_bytes = 0;        ///< device memory of CUDA graphs, beside the peak; 0: none
  std::optional<EvaluationReport> evaluation = std::nullopt;
  std::optional<RecoveryReport> recovery = std::nullopt;  ///< filled in the first step after it
  std::optional<PlanChangeReport> plan_change = std::nullopt;  ///< likewise
  std::optional<CheckpointReport> checkpoint =
      std::nullopt;  ///< one complete since the step before
};

}  // namespace athanor
