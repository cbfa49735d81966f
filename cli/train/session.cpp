// SPDX-License-Identifier: Apache-2.0
#include "cli/train/session.hpp"

#include "cli/train/run_preparation.hpp"
#include "cli/train/weight_export.hpp"
#include "executor/backend/steady_clock.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_reader.hpp"
#include "executor/traced/make_model.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

namespace athanor::cli {

void say(const std::string& line) { fmt::print(stderr, "athanor-train: {}\n", line); }

namespace {

StepLog::Options log_options(const TrainArguments& arguments, const TrainInputs& inputs,
                             Seconds predicted) {
  const RunFolder& folder = inputs.start.folder;
  return {
      .metrics = folder.metrics(),
      .context = {.tokens_per_step = inputs.plan.global_batch() * inputs.plan.sequence_length,
                  .world_size = inputs.plan.world_size,
                  .predicted_step_seconds = predicted,
                  .tensorboard = arguments.metrics == "tensorboard" ? folder.tensorboard() : ""},
      .evaluations = {.every = inputs.eval_data ? arguments.eval_every : 0,
                      .last = arguments.steps},
      .is_quiet = arguments.quiet};
}

}  // namespace

Session::Session(const TrainArguments& arguments, const TrainInputs& inputs, std::string run,
                 Backend& backend, JobWatch& watch, PlanChanges& changes)
    : arguments_(arguments),
      inputs_(inputs),
      watch_(watch),
      changes_(changes),
      run_(std::move(run)),
      rank_(backend.collectives().rank()),
      progress_(progress_on_stderr(arguments.quiet || rank_ != 0)),
      predicted_(inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0),
      log_(log_options(arguments, inputs, predicted_)),
      data_start_(data_start(arguments, inputs)),
      shift_(shift_of(inputs, data_start_)),
      trainer_(make_model(inputs.architecture, arguments.model, inputs.plan.dtype,
                          inputs.plan.sequence_length),
               inputs.profile, inputs.plan,
               training_batches(arguments, inputs, shift_, backend.device()),
               trainer_options(
                   arguments, inputs,
                   {.run = run_,
                    .resumes = inputs.start.memory.has_value(),
                    .lost = inputs.start.memory ? inputs.start.memory->lost : std::vector<bool>(),
                    .machine_ranks = machine_ranks(),
                    .describe = [this](std::int64_t step) { return described(step); }},
                   progress_.callback(), watch),
               backend),
      checkpoints_({.arguments = arguments,
                    .inputs = inputs,
                    .trainer = trainer_,
                    .watch = watch,
                    .progress = progress_,
                    .rank = rank_,
                    .state = [this](std::int64_t step) { return checkpoint_state(step); },
                    .print = [this](const std::string& line) { log_.print(line, true); }},
                   backend.device()) {
  if (inputs.eval_data) evaluation_ = shown(inputs, progress_);
}

void Session::load_checkpoint() {
  const ChosenCheckpoint& chosen = *inputs_.start.checkpoint;
  const Checkpoint checkpoint =
      open_checkpoint(chosen, inputs_.architecture, rank_, inputs_.plan.world_size);
  seed_ = checkpoint.state.seed;
  // One in another folder is not this run's.
  checkpoints_.note_newest(inputs_.start.run.empty() ? -1 : checkpoint.state.step, chosen.folder);
  say_differences();
  trainer_.start_from(checkpoint.reader, checkpoint.state.step);
}

void Session::say_differences() const {
  if (rank_ != 0) return;
  if (!data_start_.remark.empty()) say(data_start_.remark);
  const CheckpointState& before = inputs_.start.checkpoint->state;
  for (const std::string& difference : differences(before.settings, settings_)) {
    say("other than before: " + difference);
  }
}

void Session::load_memory() {
  seed_ = inputs_.start.checkpoint->state.seed;
  say_differences();
  trainer_.start_from_memory(inputs_.start.memory->steps);
}

void Session::load() {
  const Seconds start = steady_seconds();
  load_state();
  progress_.clear();
  const Seconds end = steady_seconds();
  if (!changes_.has_changed()) {
    recovery_.note_load(inputs_.start.memory.has_value(), start, end);
  }
  make_rates(end - start);
}

void Session::make_rates(Seconds load_seconds) {
  // A change writes the state, and loads it.
  rates_.emplace(
      arguments_, inputs_,
      RunRates::Site{.rank = rank_,
                     .watch = watch_,
                     .pace = changes_.pace(),
                     .say = say,
                     .on_prediction = [this](Seconds first,
                                             Seconds second) { take_prediction(first, second); }},
      first_step_, 2 * load_seconds);
}

void Session::load_state() {
  seed_ = arguments_.seed;
  if (rank_ == 0) settings_ = settings_of(arguments_, inputs_);
  if (inputs_.start.memory) {
    load_memory();
  } else if (inputs_.start.checkpoint) {
    load_checkpoint();
  } else if (inputs_.weights) {
    trainer_.start_with(
        [&](std::int32_t unit, std::span<float> flat) { inputs_.weights->read_unit(unit, flat); });
  } else {
    trainer_.start_fresh();
  }
  first_step_ = trainer_.steps_done();
}

/// Reports steps that are done, but whose processes were killed before they could say so.
void Session::report_forgotten_steps() {
  if (!inputs_.start.memory) return;
  const std::int64_t done = trainer_.steps_done();
  for (std::int64_t step = rank_ == 0 ? log_.last_step() + 1 : done + 1; step <= done; ++step) {
    if (const std::optional<StepReport> report = trainer_.remembered(step)) log_.write(*report);
  }
  const bool evaluates = trainer_.exchange(log_.holds(done) ? 1 : 0).front() != 0;
  if (evaluates) evaluate();
  log_.write_held();
  if (!evaluates) return;
  is_stopping_ = trainer_.is_stopping();
}

/// Returns rank 0's value: the ranks' clocks differ.
std::int64_t Session::same_on_all(std::int64_t value) {
  if (arguments_.checkpoint_interval.seconds <= 0) return value;
  return static_cast<std::int64_t>(trainer_.exchange(static_cast<std::uint64_t>(value)).front());
}

/// Stops all ranks where one was asked to stop. Every rank calls it, between steps.
void Session::agree_to_stop() {
  const auto wishes = trainer_.exchange(watch_.is_stop_wanted() ? 1 : 0);
  is_stopping_ |= std::ranges::any_of(wishes, [](std::uint64_t wish) { return wish != 0; });
}

void Session::train() {
  watch_.leave_stopping_to_caller();
  agree_to_stop();
  // The memory of snapshots is the plan's from its first step on: there is no way back then.
  if (rank_ == 0 && inputs_.adopted && inputs_.plan.snapshot != Snapshot::None) {
    note_working(*inputs_.adopted);
  }
  if (is_stopping_) return;
  if (rank_ == 0) log_.open(trainer_.steps_done());
  report_forgotten_steps();
  if (is_stopping_) return;
  log_.note_time(trainer_.steps_done());
  CheckpointPace pace(arguments_.checkpoint_interval, predicted_, trainer_.steps_done(),
                      steady_seconds());
  while (trainer_.steps_done() < arguments_.steps && !is_stopping_) {
    const std::int64_t stop =
        same_on_all(pace.next_stop(trainer_.steps_done(), next_pause(), steady_seconds()));
    trainer_.train_until(stop, [this](const StepReport& report) { on_step(report); });
    rates_->measure_if_due(trainer_);
    if (!trainer_.is_stopping() && log_.evaluations().contains(trainer_.steps_done())) {
      evaluate();
    }
    log_.write_held();
    is_stopping_ = trainer_.is_stopping();
    if (is_stopping_ || changes_plan()) return;
    checkpoints_.finish_if_due();
    if (same_on_all(pace.is_due(trainer_.steps_done(), steady_seconds()) ? 1 : 0) == 0) continue;
    checkpoints_.make();
    pace.note_checkpoint(steady_seconds());
    agree_to_stop();
  }
  if (arguments_.checkpoint_interval.is_on()) checkpoints_.write();
  rates_->end();
}

/// Changes to a better plan, if there is one. Every rank calls it, between steps.
bool Session::changes_plan() {
  if (!rates_->agrees_to_change(trainer_)) return false;
  const Seconds start = steady_seconds();
  checkpoints_.write();
  const std::int64_t step = trainer_.steps_done();
  const FoundPlan* const found = rank_ == 0 ? &rates_->found() : nullptr;
  const auto keep = [&](const std::string& why) { rates_->keep_plan(step, why); };
  const int adopted = found != nullptr ? changes_.adopt(*found, step, say, keep) : 0;
  const auto numbers = trainer_.exchange(static_cast<std::uint64_t>(adopted));
  if (numbers.front() == 0) return false;
  changes_.go_to(found, static_cast<int>(numbers.front()), start);
  has_new_plan_ = true;
  return true;
}

void Session::take_prediction(Seconds first, Seconds second) {
  log_.set_repredicted(second);
  if (!arguments_.quiet) log_.print(second_prediction_line(first, second), /*stays=*/true);
}

/// A failure leaves the snapshot in memory, which is not freed by itself.
void Session::train_or_say_where_state_is() {
  try {
    train();
  } catch (const std::exception&) {
    if (rank_ == 0 && inputs_.plan.snapshot != Snapshot::None) {
      say(
          fmt::format("the state of this run stays in {}: --resume {} goes on from it, and athanor "
                      "clean {} frees it",
                      kSharedMemoryFolder, arguments_.out, arguments_.out));
    }
    throw;
  }
}

void Session::save_interrupted() {
  const std::int64_t step = trainer_.steps_done();
  if (step > 0) checkpoints_.write();
  if (rank_ != 0) return;
  log_.end_line();
  say(interrupted_line(watch_.stop_signal(), step, checkpoints_.newest_folder(), arguments_.out));
}

/// Returns the next step after which something is done between steps, or else the last.
std::int64_t Session::next_pause() const {
  const std::int64_t next =
      std::min(log_.evaluations().after(trainer_.steps_done()), checkpoints_.last_step_beside());
  const std::int64_t measures_after = rates_->measures_after();
  const bool measures = trainer_.steps_done() < measures_after;
  return measures ? std::min(next, measures_after) : next;
}

void Session::evaluate() {
  const std::optional<EvaluationReport> report = trainer_.evaluate(*evaluation_);
  progress_.clear();
  if (rank_ == 0 && report) log_.add(*report);
}

void Session::on_step(StepReport report) {
  report.checkpoint = checkpoints_.look();
  if (rank_ != 0) return;
  report.recovery = recovery_.end(steady_seconds());
  if (report.recovery) say(recovery_line(*report.recovery, report.step));
  if (inputs_.adopted && report.step == first_step_ + 1) note_working(*inputs_.adopted);
  report.plan_change = changes_.end(steady_seconds() - report.seconds);
  log_.write(report);
  log_.show(report);
  rates_->note_step(report);
}

/// Text by which a snapshot is resumed. It names no files.
std::string Session::described(std::int64_t step) const {
  CheckpointState state = checkpoint_state(step);
  state.world_size = 1;
  state.files = {{rank_file_name(0, 1), 0, 0}};
  return to_json(state);
}

CheckpointState Session::checkpoint_state(std::int64_t step) const {
  return state_of(inputs_, {run_, seed_, settings_}, step, shift_);
}

void Session::keep_weights_of_failed_export(const std::string& failure) {
  if (rank_ == 0) say("the export failed: " + failure);
  checkpoints_.write();
  if (rank_ != 0) return;
  throw Error(fmt::format(
      "{}{} The weights are in the checkpoint {}. Once that is mended, give the "
      "same command with --resume {}.",
      failure, failure.ends_with('.') ? "" : ".", checkpoints_.newest_folder(), arguments_.out));
}

/// Writes the timeline of the last steps. Without it the run is still worth its weights.
void Session::measure() {
  const Timeline timeline = trainer_.timeline();
  if (rank_ != 0) return;
  try {
    write_measured_trace(inputs_.start.folder, trainer_.program(), timeline);
  } catch (const Error& error) {
    say(fmt::format("no timeline: {}", error.what()));
  }
}

void Session::export_or_keep() {
  watch_.leave_stopping_to_caller();
  watch_.set_activity("it exports the weights");
  const auto is_stopping = [this] {
    agree_to_stop();
    return is_stopping_;
  };
  const std::string failure =
      arguments_.export_folder.empty()
          ? ""
          : export_weights(trainer_, arguments_, inputs_, run_, rank_, is_stopping, progress_);
  // No rank leaves while another still writes.
  const bool has_failed = trainer_.exchange(failure.empty() ? 0 : 1).front() != 0;
  if (has_failed) keep_weights_of_failed_export(failure);
}

}  // namespace athanor::cli
