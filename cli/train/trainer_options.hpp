// SPDX-License-Identifier: Apache-2.0
// The trainer's options, as the command line and the plan give them.
#pragma once

#include "cli/common/progress_line.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/train/trainer.hpp"
#include "executor/train/training_state.hpp"

#include <vector>

namespace athanor::cli {

[[nodiscard]] TrainOptions trainer_options(const TrainArguments& arguments,
                                           const TrainInputs& inputs, SnapshotOptions snapshot,
                                           OnProgress progress, JobWatch& watch);

/// Host memory of a rank, as the plan's prediction has it; 0 where it has none.
[[nodiscard]] Bytes planned_host_bytes(const Plan& plan);

/// Returns the batches to train on, made ahead for `device`. `shift`: shift_of().
[[nodiscard]] BatchSource training_batches(const TrainArguments& arguments,
                                           const TrainInputs& inputs, std::int64_t shift,
                                           const Device& device);

/// Returns the held-out data, whose reading shows on `progress` how far an evaluation is.
[[nodiscard]] EvaluationSource shown(const TrainInputs& inputs, ProgressLine& progress);

/// Returns `ranges`, whose reading shows on `progress` how far a checkpoint is.
[[nodiscard]] std::vector<StateRange> counted(std::vector<StateRange> ranges,
                                              ProgressLine& progress);

}  // namespace athanor::cli
