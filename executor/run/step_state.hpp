// SPDX-License-Identifier: Apache-2.0
// What the operations of one step leave for each other and for the metrics, besides memory.
#pragma once

#include "executor/lanes/adam.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

struct StepState {
  std::int64_t step = 0;  ///< 0 for the first step of training
  float learning_rate = 0;
  std::vector<double> losses;         ///< this rank's, by micro-batch
  std::vector<ExactSum> square_sums;  ///< by operation index; zero where it is no SquareSum
  double mean_loss = 0;               ///< over the global batch; set by Loss
  float gradient_norm = 0;            ///< set by Norm
  float gradient_scale = 1;           ///< clipping factor; set by Norm
};

}  // namespace athanor
