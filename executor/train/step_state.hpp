// SPDX-License-Identifier: Apache-2.0
// The facts about one step that its operations share, besides memory.
#pragma once

#include "executor/train/step_scalars.hpp"

#include <cstdint>

namespace athanor {

struct StepState {
  StepScalars scalars;
  std::int64_t step = 0;     ///< 0 for the first step of training, or of an evaluation
  std::int64_t trained = 0;  ///< steps of training that the parameters have behind them
  float learning_rate = 0;
  bool makes_snapshot = true;         ///< runs the operations that do
  const StepState* before = nullptr;  ///< the step before; null for the first after a start
};

}  // namespace athanor
