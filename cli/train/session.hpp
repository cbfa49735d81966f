// SPDX-License-Identifier: Apache-2.0
// Training run of one process under one plan, from its memory to its last file.
#pragma once

#include "cli/common/progress_line.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "cli/train/log/recovery_times.hpp"
#include "cli/train/log/step_log.hpp"
#include "cli/train/plan_change.hpp"
#include "cli/train/run_checkpoints.hpp"
#include "cli/train/run_rates.hpp"
#include "cli/train/run_settings.hpp"
#include "cli/train/trainer_options.hpp"
#include "executor/backend/backend.hpp"
#include "executor/train/trainer.hpp"
#include "executor/watch/job_watch.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace athanor::cli {

/// Prints a line that stays, whether or not progress is shown.
void say(const std::string& line);

/// Every rank has one and makes the same calls.
class Session {
 public:
  /// `run`: identity of the run, which rank 0 knows.
  Session(const TrainArguments& arguments, const TrainInputs& inputs, std::string run,
          Backend& backend, JobWatch& watch, PlanChanges& changes);

  /// Loads the state from memory, a checkpoint or weights, or makes fresh weights.
  void load();
  /// Trains to the end, or until it is stopped or the plan is changed. Whatever ends it otherwise
  /// is thrown, once it is said where a snapshot keeps the state.
  void train_or_say_where_state_is();
  /// Writes the timeline of the last steps.
  void measure();
  /// Exports the weights. Where that fails they are kept in a checkpoint, and the failure is
  /// thrown.
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
  void make_rates(Seconds load_seconds);
  void take_prediction(Seconds first, Seconds second);
  bool changes_plan();
  void agree_to_stop();
  [[nodiscard]] std::int64_t same_on_all(std::int64_t value);
  void on_step(StepReport report);
  [[nodiscard]] std::int64_t next_pause() const;
  void evaluate();
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
  const Seconds predicted_;
  StepLog log_;  ///< used on rank 0
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
  std::optional<RunRates> rates_;
  bool has_new_plan_ = false;
};

}  // namespace athanor::cli
