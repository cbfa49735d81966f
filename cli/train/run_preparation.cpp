// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_preparation.hpp"

#include "cli/retune/adopted_plans.hpp"
#include "cli/train/run_rates.hpp"
#include "executor/checkpoint/checkpoint_folder.hpp"
#include "executor/io/hf_folder_writer.hpp"
#include "executor/job/run_folder.hpp"
#include "executor/job/run_record.hpp"
#include "executor/memory/shared_memory.hpp"
#include "executor/rendezvous/interrupts.hpp"
#include "executor/snapshot/run_memory.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

namespace athanor::cli {
namespace {

/// A run that does not go on from its memory has no use for it.
void remove_older_snapshot(const RunStart& start,
                           const std::function<void(const std::string&)>& report) {
  if (start.memory || start.run.empty()) return;
  std::vector<RankMemory> held;
  for (const RankMemory& memory : remove_run_memory(kSharedMemoryFolder, start.run, held)) {
    report("removed the older snapshot " + memory.path);
  }
}

/// Returns what is predicted at the start.
RunPrediction prediction_of(const TrainArguments& arguments, const TrainInputs& inputs) {
  RunPrediction prediction;
  if (inputs.plan.prediction) prediction.first = inputs.plan.prediction->step_seconds;
  const std::int64_t first_step = inputs.start.checkpoint ? inputs.start.checkpoint->state.step : 0;
  prediction.absent = why_no_second_prediction(arguments, inputs, first_step);
  if (prediction.absent.empty()) prediction.absent = "it is not made yet";
  return prediction;
}

}  // namespace

std::string prepare_run(const TrainArguments& arguments, const TrainInputs& inputs,
                        const std::string& run_json,
                        const std::function<void(const std::string&)>& report) {
  const RunStart& start = inputs.start;
  for (const std::string& remark : start.remarks) report(remark);
  if (!arguments.export_folder.empty() && !start.exported) {
    prepare_export_folder(arguments.export_folder);
  }
  make_checkpoints_folder(start.folder.checkpoints());
  for (const std::string& name : remove_leftovers(start.folder.checkpoints())) {
    report("removed what a killed process left of " + name);
  }
  remove_older_snapshot(start, report);
  if (is_finished(arguments, start)) return start.run;
  for (const std::string& damaged : start.in_the_way) {
    report(fmt::format("the damaged checkpoint {} is now {}", damaged, set_aside(damaged)));
  }
  remove_candidate(start.folder);
  const std::string run = start.run.empty() ? new_run_identity() : start.run;
  std::string object = with_prediction(run_json, prediction_of(arguments, inputs));
  if (inputs.adopted) {
    object = with_changed_plan(object, inputs.adopted->change);
    note_start_under(*inputs.adopted);
  }
  start_run_folder(start.folder, object, run, inputs.plan, inputs.profile, inputs.platform);
  return run;
}

std::string of_first_rank(const std::string& text, Collectives& ranks) {
  constexpr std::size_t kBytes = 64;
  std::vector<char> all(kBytes * static_cast<std::size_t>(ranks.world_size()));
  if (ranks.rank() == 0) text.copy(all.data(), kBytes - 1);
  ranks.all_gather(all.data(), kBytes);
  return all.data();
}

std::string interrupted_line(int signal, std::int64_t step, const std::string& saved,
                             const std::string& out) {
  const std::string why = signal != 0 ? signal_name(signal) : "a signal to another rank";
  if (step == 0) {
    return fmt::format("interrupted by {} before the first step; the same command starts it again",
                       why);
  }
  return fmt::format(
      "interrupted by {} after step {}; it is saved in {}. To go on, give the same "
      "command with --resume {}",
      why, step, saved, out);
}

std::string nothing_left(const TrainArguments& arguments, const TrainInputs& inputs) {
  const ChosenCheckpoint& checkpoint = *inputs.start.checkpoint;
  const std::string weights = inputs.start.exported
                                  ? fmt::format("Its weights are in {}.", arguments.export_folder)
                                  : "For the weights, give --export FOLDER.";
  return fmt::format(
      "athanor-train: nothing is left to do: {} is of step {}, and --steps is {}. {} For more, "
      "give more --steps.\n",
      checkpoint.folder, checkpoint.state.step, arguments.steps, weights);
}

void free_left_snapshot(const RunStart& start) {
  remove_older_snapshot(
      start, [](const std::string& line) { fmt::print(stderr, "athanor-train: {}\n", line); });
}

}  // namespace athanor::cli
