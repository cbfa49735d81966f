// SPDX-License-Identifier: Apache-2.0
#include "cli/train/session.hpp"

#include "executor/checkpoint/checkpoint_reader.hpp"
#include "executor/checkpoint/checkpoint_writer.hpp"
#include "executor/io/hf_folder_writer.hpp"
#include "executor/job/metrics_log.hpp"
#include "executor/job/progress_printer.hpp"
#include "executor/train/token_batches.hpp"
#include "executor/train/trainer.hpp"
#include "executor/units/language_model.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace athanor::cli {
namespace {

/// Deadline in predicted steps. A rank that is silent for so long has failed.
constexpr double kDeadlineSteps = 20;
constexpr Seconds kShortestDeadline = 20;

TrainOptions train_options(const TrainArguments& arguments, const TrainInputs& inputs) {
  TrainOptions options;
  options.schedule = schedule_of(arguments);
  options.optimizer = {.beta1 = arguments.beta1,
                       .beta2 = arguments.beta2,
                       .epsilon = arguments.epsilon,
                       .weight_decay = arguments.weight_decay};
  options.seed = arguments.seed;
  options.nvme_folder = arguments.nvme;
  options.progress_board = inputs.folder.progress_board();
  const Seconds predicted = inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0;
  options.deadline = arguments.deadline > 0
                         ? arguments.deadline
                         : std::max(kShortestDeadline, kDeadlineSteps * predicted);
  return options;
}

class Session {
 public:
  Session(const TrainArguments& arguments, const TrainInputs& inputs, Backend& backend)
      : arguments_(arguments),
        inputs_(inputs),
        rank_(backend.collectives().rank()),
        tokens_per_step_(inputs.plan.global_batch() * inputs.plan.sequence_length),
        predicted_(inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0),
        trainer_(make_language_model(inputs.architecture, inputs.plan.dtype,
                                     inputs.plan.sequence_length),
                 inputs.profile, inputs.plan,
                 token_batches(inputs.data, inputs.plan.sequence_length),
                 train_options(arguments, inputs), backend) {}

  void load();
  void train();
  void finish();

 private:
  [[nodiscard]] std::int64_t next_stop() const;
  void on_step(const StepReport& report);
  void write_checkpoint();
  void export_weights();

  const TrainArguments& arguments_;
  const TrainInputs& inputs_;
  const int rank_;
  const std::int64_t tokens_per_step_;
  const Seconds predicted_;
  Trainer trainer_;
  std::uint64_t seed_ = 0;
  std::optional<MetricsLog> metrics_;
  ProgressStyle style_ = progress_style_of_stderr();
};

void Session::load() {
  seed_ = arguments_.seed;
  if (!inputs_.checkpoint.empty()) {
    const Checkpoint checkpoint =
        open_checkpoint(inputs_.checkpoint, inputs_.architecture, rank_, inputs_.plan.world_size);
    seed_ = checkpoint.state.seed;
    trainer_.start_from(checkpoint.reader, checkpoint.state.step);
  } else if (inputs_.weights) {
    trainer_.start_from(fresh_state(inputs_.architecture,
                                    [&](std::int32_t unit, std::span<float> flat) {
                                      inputs_.weights->read_unit(unit, flat);
                                    }),
                        0);
  } else {
    trainer_.start_fresh();
  }
  if (rank_ == 0) {
    metrics_.emplace(inputs_.folder.metrics(), trainer_.steps_done(),
                     MetricsLog::Context{.tokens_per_step = tokens_per_step_,
                                         .world_size = inputs_.plan.world_size,
                                         .predicted_step_seconds = predicted_});
  }
}

std::int64_t Session::next_stop() const {
  if (arguments_.checkpoint_every == 0) return arguments_.steps;
  const std::int64_t done = trainer_.steps_done() / arguments_.checkpoint_every;
  return std::min(arguments_.steps, (done + 1) * arguments_.checkpoint_every);
}

void Session::train() {
  while (trainer_.steps_done() < arguments_.steps) {
    trainer_.train_until(next_stop(), [this](const StepReport& report) { on_step(report); });
    if (arguments_.checkpoint_every > 0) write_checkpoint();
  }
}

void Session::on_step(const StepReport& report) {
  if (rank_ != 0) return;
  metrics_->write(report);
  if (arguments_.quiet) return;
  const std::string line = progress_line(report, arguments_.steps, tokens_per_step_, predicted_);
  const bool last = report.step == arguments_.steps;
  fmt::print(stderr, "{}{}{}", style_.rewrite ? "\r\033[K" : "", line,
             style_.rewrite && !last ? "" : "\n");
  std::fflush(stderr);
}

void Session::write_checkpoint() {
  const CheckpointState state{.step = trainer_.steps_done(),
                              .world_size = inputs_.plan.world_size,
                              .seed = seed_,
                              .model = inputs_.architecture.name,
                              .parameters = hash_parameters(inputs_.architecture),
                              .files = {}};
  athanor::write_checkpoint(inputs_.folder.checkpoints(), state, inputs_.architecture,
                            trainer_.ranges_to_save(), rank_, arguments_.keep_last,
                            [this](std::uint64_t value) { return trainer_.exchange(value); });
}

void Session::export_weights() {
  std::optional<HfFolderWriter> writer;
  if (rank_ == 0) {
    writer.emplace(arguments_.export_folder, inputs_.architecture, inputs_.plan.dtype);
  }
  for (int unit = 0; unit < static_cast<int>(inputs_.architecture.units.size()); ++unit) {
    const std::vector<float> weights = trainer_.unit_weights(unit);
    if (writer) writer->write_unit(unit, weights);
  }
  if (writer) writer->finish();
}

void Session::finish() {
  const Timeline timeline = trainer_.timeline();
  if (rank_ == 0) write_measured_trace(inputs_.folder, trainer_.program(), timeline);
  if (!arguments_.export_folder.empty()) export_weights();
  static_cast<void>(trainer_.exchange(0));  // no rank leaves while another still writes
}

}  // namespace

void train(const TrainArguments& arguments, const TrainInputs& inputs, const std::string& run_json,
           Backend& backend) {
  std::optional<RunFolderLock> lock;
  Collectives& ranks = backend.host_collectives();
  if (ranks.rank() == 0) {
    lock.emplace(inputs.folder);
    start_run_folder(inputs.folder, run_json, inputs.plan, inputs.profile, inputs.platform);
  }
  ranks.barrier();
  Session session(arguments, inputs, backend);
  session.load();
  session.train();
  session.finish();
}

}  // namespace athanor::cli
