// SPDX-License-Identifier: Apache-2.0
// The options of a run, as the trainer takes them.
#pragma once

#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/train/trainer.hpp"
#include "executor/watch/job_watch.hpp"

namespace athanor::cli {

/// Returns the trainer's options. `watch` must outlive the trainer.
[[nodiscard]] TrainOptions train_options(const TrainArguments& arguments, const TrainInputs& inputs,
                                         SnapshotOptions snapshot, JobWatch& watch);

}  // namespace athanor::cli
