// SPDX-License-Identifier: Apache-2.0
#include "cli/train/trainer_options.hpp"

#include <algorithm>
#include <utility>

namespace athanor::cli {
namespace {

/// Deadline in predicted steps. A rank that is silent for so long has failed.
constexpr double kDeadlineSteps = 20;
constexpr Seconds kShortestDeadline = 20;

}  // namespace

TrainOptions train_options(const TrainArguments& arguments, const TrainInputs& inputs,
                           SnapshotOptions snapshot, JobWatch& watch) {
  TrainOptions options;
  options.schedule = schedule_of(arguments);
  options.optimizer = {.beta1 = arguments.beta1,
                       .beta2 = arguments.beta2,
                       .epsilon = arguments.epsilon,
                       .weight_decay = arguments.weight_decay};
  options.seed = arguments.seed;
  options.ranks_per_node = inputs.ranks_per_node();
  options.nvme_folder = arguments.nvme;
  options.watch = &watch;
  if (inputs.plan.snapshot != Snapshot::None) options.snapshot = std::move(snapshot);
  const Seconds predicted = inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0;
  options.deadline = arguments.deadline > 0
                         ? arguments.deadline
                         : std::max(kShortestDeadline, kDeadlineSteps * predicted);
  return options;
}

}  // namespace athanor::cli
