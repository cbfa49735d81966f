// SPDX-License-Identifier: Apache-2.0
#include "cli/train/session.hpp"

#include "cli/common/memory_progress.hpp"
#include "cli/common/progress_line.hpp"
#include "cli/train/plan_change.hpp"
#include "cli/train/recovery_times.hpp"
#include "cli/train/run_checkpoints.hpp"
#include "cli/train/run_preparation.hpp"
#include "cli/train/run_rates.hpp"
#include "cli/train/run_settings.hpp"
#include "cli/train/trainer_options.hpp"
#include "cli/train/weight_export.hpp"
#include "executor/backend/steady_clock.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_reader.hpp"
#include "executor/job/metrics_log.hpp"
#include "executor/job/progress_printer.hpp"
#include "executor/rendezvous/interrupts.hpp"
#include "executor/traced/make_model.hpp"
#include "executor/train/trainer.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

/// Prints a line that stays, whether or not progress is shown.
void say(const std::string& line) { fmt::print(stderr, "athanor-train: {}\n", line); }

class Session {
 public:
  /// `run`: identity of the run, which rank 0 knows.
  Session(const TrainArguments& arguments, const TrainInputs& inputs, std::string run,
          Backend& backend, JobWatch& watch, PlanChanges& changes)
      : arguments_(arguments),
        inputs_(inputs),
        watch_(watch),
        changes_(changes),
        run_(std::move(run)),
        rank_(backend.collectives().rank()),
        progress_(progress_on_stderr(arguments.quiet || rank_ != 0)),
        tokens_per_step_(inputs.plan.global_batch() * inputs.plan.sequence_length),
        predicted_(inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0),
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
                      .print = [this](const std::string& line) { print(line, /*stays=*/true); }},
                     backend.device()) {
    if (inputs.eval_data) evaluation_ = shown(inputs, progress_);
  }

  void load();
  void train_or_say_where_state_is();
  void measure();
  void export_or_keep();
  /// Says where an interrupted run can go on. Every rank calls it.
  void save_interrupted();
  /// Whether a step was run by this process.
  [[nodiscard]] bool has_trained() const noexcept { return trainer_.steps_done() > first_step_; }
  /// Frees the memory that outlives this process. Every rank calls it once all is saved.
  void forget_snapshot() { trainer_.forget_snapshot(); }
  /// Whether all ranks have agreed to stop.
  [[nodiscard]] bool is_stopping() const { return is_stopping_; }
  /// Whether the run goes on under another plan.
  [[nodiscard]] bool has_new_plan() const { return has_new_plan_; }

 private:
  void train();
  void load_checkpoint();
  void load_memory();
  void load_state();
  void say_differences() const;
  void report_forgotten_steps();
  void start_log();
  void make_rates(Seconds load_seconds);
  void take_prediction(Seconds first, Seconds second);
  bool changes_plan();
  void agree_to_stop();
  [[nodiscard]] std::int64_t same_on_all(std::int64_t value);
  void on_step(StepReport report);
  void note_time(std::int64_t step);
  [[nodiscard]] bool is_evaluated(std::int64_t step) const;
  [[nodiscard]] std::int64_t next_evaluation() const;
  [[nodiscard]] std::int64_t next_pause() const;
  void evaluate();
  void print(const std::string& line, bool stays) const;
  [[nodiscard]] CheckpointState checkpoint_state(std::int64_t step) const;
  [[nodiscard]] std::string described(std::int64_t step) const;
  void keep_weights_of_failed_export(const std::string& failure);

  const TrainArguments& arguments_;
  const TrainInputs& inputs_;
  JobWatch& watch_;
  PlanChanges& changes_;
  const std::string run_;
  const int rank_;
  ProgressLine progress_;
  const std::int64_t tokens_per_step_;
  const Seconds predicted_;
  const DataStart data_start_;
  const std::int64_t shift_;
  Trainer trainer_;
  std::optional<EvaluationSource> evaluation_;
  std::uint64_t seed_ = 0;
  std::map<std::string, std::string> settings_;  ///< on rank 0
  RunCheckpoints checkpoints_;                   ///< ends before the trainer
  bool is_stopping_ = false;
  std::int64_t first_step_ = 0;
  RecoveryTimes recovery_;
  std::optional<MetricsLog> metrics_;
  std::optional<RunRates> rates_;
  bool has_new_plan_ = false;
  Seconds repredicted_ = 0;              ///< 0: not yet
  std::optional<StepReport> unwritten_;  ///< report of a step that is evaluated, on rank 0
  TimeLeft left_;  ///< estimate for all steps, with checkpoints and evaluations
  ProgressStyle style_ = progress_style_of_stderr();
};

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

void Session::start_log() {
  if (rank_ != 0) return;
  metrics_.emplace(inputs_.start.folder.metrics(), trainer_.steps_done(),
                   MetricsLog::Context{.tokens_per_step = tokens_per_step_,
                                       .world_size = inputs_.plan.world_size,
                                       .predicted_step_seconds = predicted_,
                                       .tensorboard = arguments_.metrics == "tensorboard"
                                                          ? inputs_.start.folder.tensorboard()
                                                          : ""});
}

/// Reports steps that are done, but whose processes were killed before they could say so.
void Session::report_forgotten_steps() {
  if (!inputs_.start.memory) return;
  const std::int64_t done = trainer_.steps_done();
  bool evaluates = false;
  for (std::int64_t step = rank_ == 0 ? metrics_->last_step() + 1 : done + 1; step <= done;
       ++step) {
    const std::optional<StepReport> report = trainer_.remembered(step);
    if (!report) continue;
    evaluates = step == done && is_evaluated(step);
    if (evaluates) {
      unwritten_ = report;
    } else {
      metrics_->write(*report);
    }
  }
  if (trainer_.exchange(evaluates ? 1 : 0).front() == 0) return;
  evaluate();
  if (unwritten_) metrics_->write(*std::exchange(unwritten_, std::nullopt));
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
  start_log();
  report_forgotten_steps();
  if (is_stopping_) return;
  note_time(trainer_.steps_done());
  CheckpointPace pace(arguments_.checkpoint_interval, predicted_, trainer_.steps_done(),
                      steady_seconds());
  while (trainer_.steps_done() < arguments_.steps && !is_stopping_) {
    const std::int64_t stop =
        same_on_all(pace.next_stop(trainer_.steps_done(), next_pause(), steady_seconds()));
    trainer_.train_until(stop, [this](const StepReport& report) { on_step(report); });
    rates_->measure_if_due(trainer_);
    if (!trainer_.is_stopping() && is_evaluated(trainer_.steps_done())) evaluate();
    if (unwritten_) metrics_->write(*std::exchange(unwritten_, std::nullopt));
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
  repredicted_ = second;
  metrics_->set_repredicted(second);
  if (!arguments_.quiet) print(second_prediction_line(first, second), /*stays=*/true);
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
  if (style_.rewrite && !arguments_.quiet) fmt::print(stderr, "\n");
  say(interrupted_line(watch_.stop_signal(), step, checkpoints_.newest_folder(), arguments_.out));
}

/// Whether the model is evaluated after that step. The last step always is.
bool Session::is_evaluated(std::int64_t step) const {
  return evaluation_ && (step % arguments_.eval_every == 0 || step == arguments_.steps);
}

/// Returns the next step after which something is done between steps, or else the last.
std::int64_t Session::next_pause() const {
  const std::int64_t next = std::min(next_evaluation(), checkpoints_.last_step_beside());
  const std::int64_t measures_after = rates_->measures_after();
  const bool measures = trainer_.steps_done() < measures_after;
  return measures ? std::min(next, measures_after) : next;
}

/// Returns the next step that is evaluated, or else the last.
std::int64_t Session::next_evaluation() const {
  if (!evaluation_) return arguments_.steps;
  const std::int64_t every = arguments_.eval_every;
  return std::min(arguments_.steps, (trainer_.steps_done() / every + 1) * every);
}

void Session::evaluate() {
  const std::optional<EvaluationReport> report = trainer_.evaluate(*evaluation_);
  progress_.clear();
  if (rank_ != 0 || !report) return;
  unwritten_->evaluation = report;
  if (!arguments_.quiet) print(evaluation_line(unwritten_->step, *report), /*stays=*/true);
}

void Session::on_step(StepReport report) {
  report.checkpoint = checkpoints_.look();
  if (rank_ != 0) return;
  report.recovery = recovery_.end(steady_seconds());
  if (report.recovery) say(recovery_line(*report.recovery, report.step));
  if (inputs_.adopted && report.step == first_step_ + 1) note_working(*inputs_.adopted);
  report.plan_change = changes_.end(steady_seconds() - report.seconds);
  if (is_evaluated(report.step)) {
    unwritten_ = report;
  } else {
    metrics_->write(report);
  }
  note_time(report.step);
  if (!arguments_.quiet) {
    print(progress_line(report, arguments_.steps, tokens_per_step_,
                        repredicted_ > 0 ? repredicted_ : predicted_, left_.left()),
          /*stays=*/is_evaluated(report.step) || report.step == arguments_.steps);
  }
  rates_->note_step(report);
}

void Session::note_time(std::int64_t step) {
  left_.note(steady_seconds(), static_cast<double>(step) / static_cast<double>(arguments_.steps));
}

/// Prints a line that the next one replaces on a terminal, unless it `stays`.
void Session::print(const std::string& line, bool stays) const {
  fmt::print(stderr, "{}{}{}", style_.rewrite ? "\r\033[K" : "", line,
             style_.rewrite && !stays ? "" : "\n");
  std::fflush(stderr);
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

/// Runs under one plan: to the end, until it is interrupted, or until the plan is changed.
int train_under(const TrainArguments& arguments, const TrainInputs& inputs, const std::string& run,
                Backend& backend, JobWatch& watch, PlanChanges& changes) {
  const int rank = backend.host_collectives().rank();
  watch.set_activity("it takes its memory");
  std::optional<MemoryProgress> reserving(std::in_place, planned_host_bytes(inputs.plan),
                                          progress_on_stderr(arguments.quiet || rank != 0));
  Session session(arguments, inputs, run, backend, watch, changes);
  reserving.reset();
  watch.set_activity("it loads the state of the model");
  session.load();
  watch.set_activity("it is between steps");
  if (!is_finished(arguments, inputs.start)) {
    session.train_or_say_where_state_is();
    if (session.has_new_plan()) {
      session.forget_snapshot();
      return kExitDone;
    }
    if (!session.is_stopping() && session.has_trained()) session.measure();
  }
  if (!session.is_stopping()) session.export_or_keep();
  const bool is_done = !session.is_stopping();
  if (!is_done) session.save_interrupted();
  session.forget_snapshot();
  return is_done ? kExitDone : kExitInterrupted;
}

}  // namespace

int train(const TrainArguments& arguments, const TrainInputs& inputs, const std::string& run_json,
          Backend& backend, JobWatch& watch) {
  std::optional<RunFolderLock> lock;
  Collectives& ranks = backend.host_collectives();
  if (ranks.rank() == 0) lock.emplace(inputs.start.folder);
  PlanChanges changes(arguments, inputs);
  for (;;) {
    std::string run;
    if (ranks.rank() == 0) {
      run = prepare_run(changes.arguments(), changes.inputs(), run_json, say);
    }
    run = of_first_rank(run, ranks);
    const int code =
        train_under(changes.arguments(), changes.inputs(), run, backend, watch, changes);
    if (!changes.take_next()) return code;
  }
}

}  // namespace athanor::cli
