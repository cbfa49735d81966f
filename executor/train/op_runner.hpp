// SPDX-License-Identifier: Apache-2.0
// The table from an operation of the program to the code that does it.
#pragma once

#include "executor/train/compute_ops.hpp"
#include "executor/train/optimizer_ops.hpp"
#include "executor/train/rank_context.hpp"
#include "executor/train/step_state.hpp"

namespace athanor {

class OpRunner {
 public:
  /// `context` and `runners` [unit] outlive it.
  OpRunner(const RankContext& context, const Architecture& architecture,
           std::vector<UnitRunner>& runners, BatchSource batches,
           const OptimizerOptions& optimizer);

  /// Runs the operation or, on a device with streams, issues it on its lane's stream. Operations of
  /// different lanes may run at the same time.
  void run(std::int32_t operation, const StepState& state);
  [[nodiscard]] const ComputeOps& compute() const noexcept { return compute_; }
  [[nodiscard]] const OptimizerOps& optimizer() const noexcept { return optimizer_; }

 private:
  const RankContext& context_;
  ComputeOps compute_;
  OptimizerOps optimizer_;
};

}  // namespace athanor
