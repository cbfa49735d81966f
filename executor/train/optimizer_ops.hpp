// SPDX-License-Identifier: Apache-2.0
// AdamW and the gradient norm on this rank's shards.
#pragma once

#include "executor/train/rank_context.hpp"
#include "executor/train/step_state.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

struct SnapshotMark;

/// AdamW's constants; the learning rate comes from the schedule.
struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< on parameters with two dimensions or more, on no others
};

class OptimizerOps {
 public:
  OptimizerOps(const RankContext& context, const Architecture& architecture,
               const OptimizerOptions& options);

  /// Computes the sum of squares of the shard's gradient.
  void square_sum(std::int32_t operation, const StepState& state) const;
  /// Runs Adam or AdamRollback: updates the shard's master and moments, and in bf16 training rounds
  /// the master into the shard that is sent or gathered.
  void adam(const Operation& op, const StepState& state) const;
  /// Runs Fence: notes in the redo log that all gradients are in host memory, and what their
  /// updates need, and waits until every rank has noted it.
  void note_gradients(const Operation& op, const StepState& state) const;
  /// Runs Mark: notes that the version of the state after this step is whole.
  void note_version(const StepState& state) const;
  /// Runs Mark where it is of the version from which this step started, with the constants of the
  /// step before. What was loaded at a start needs no mark.
  void note_start(const StepState& state) const;
  /// Makes the update of a chunk whole whose process was killed.
  void redo(std::int32_t unit, std::int32_t chunk, const SnapshotMark& mark) const;

 private:
  [[nodiscard]] int threads_of(const Operation& op) const;
  [[nodiscard]] AdamCoefficients coefficients(const StepState& state) const;

  const RankContext& context_;
  OptimizerOptions options_;
  std::vector<std::vector<std::vector<AdamSegment>>> segments_;  ///< [unit][chunk][segment]
};

}  // namespace athanor
