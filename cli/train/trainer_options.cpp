// SPDX-License-Identifier: Apache-2.0
#include "cli/train/trainer_options.hpp"

#include "cli/train/run_settings.hpp"
#include "executor/batches/prefetch.hpp"
#include "executor/batches/token_batches.hpp"
#include "executor/units/torch_types.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace athanor::cli {
namespace {

/// Deadline in predicted steps. A rank that is silent for so long has failed.
constexpr double kDeadlineSteps = 20;
constexpr Seconds kShortestDeadline = 20;

}  // namespace

TrainOptions trainer_options(const TrainArguments& arguments, const TrainInputs& inputs,
                             SnapshotOptions snapshot, OnProgress progress, JobWatch& watch) {
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
  options.progress = std::move(progress);
  if (inputs.plan.snapshot != Snapshot::None) options.snapshot = std::move(snapshot);
  const Seconds predicted = inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0;
  options.deadline = arguments.deadline > 0
                         ? arguments.deadline
                         : std::max(kShortestDeadline, kDeadlineSteps * predicted);
  return options;
}

Bytes planned_host_bytes(const Plan& plan) {
  if (!plan.prediction) return 0;
  return plan.prediction->peak_bytes.pinned + plan.prediction->peak_bytes.host;
}

BatchSource training_batches(const TrainArguments& arguments, const TrainInputs& inputs,
                             std::int64_t shift, const Device& device) {
  return prefetched(token_batches(inputs.data, inputs.plan.sequence_length,
                                  {shift, sample_order(arguments, inputs)}),
                    torch_device(device.index()));
}

EvaluationSource shown(const TrainInputs& inputs, ProgressLine& progress) {
  EvaluationSource source = evaluation_source(inputs.eval_data, inputs.plan.sequence_length);
  // The lane that takes batches is alone with the line while the calling thread waits for it.
  source.batches = [&progress, samples = source.num_samples, batches = std::move(source.batches)](
                       std::int64_t first, std::int64_t count) {
    progress.update("evaluating", first, samples);
    return batches(first, count);
  };
  return source;
}

std::vector<StateRange> counted(std::vector<StateRange> ranges, ProgressLine& progress) {
  std::int64_t total = 0, before = 0;
  for (const StateRange& range : ranges) total += range.at.elements();
  for (StateRange& range : ranges) {
    range.read = [&progress, before, total, read = std::move(range.read)](StatePart part,
                                                                          std::span<float> to) {
      progress.update("writing a checkpoint", before, total);
      read(part, to);
    };
    before += range.at.elements();
  }
  return ranges;
}

}  // namespace athanor::cli
