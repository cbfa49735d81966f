// SPDX-License-Identifier: Apache-2.0
// StepLog prints steps and evaluations of a run on the terminal, and writes them to metrics.jsonl.
#pragma once

#include "executor/job/metrics_log.hpp"
#include "executor/job/progress_printer.hpp"
#include "executor/job/step_report.hpp"
#include "sim/base/progress.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace athanor::cli {

/// The steps after which the model is evaluated.
struct EvaluationSteps {
  std::int64_t every = 0;  ///< 0: it is never evaluated
  std::int64_t last = 0;   ///< last step of the run, which is one of them

  [[nodiscard]] bool contains(std::int64_t step) const;
  /// Returns the first one behind `step`, or else the last step.
  [[nodiscard]] std::int64_t after(std::int64_t step) const;
};

/// Every rank has one, and only rank 0 uses it. The record of a step that is evaluated is held back
/// until the evaluation is known, so that a step has one record.
class StepLog {
 public:
  struct Options {
    std::string metrics;          ///< path of metrics.jsonl
    MetricsLog::Context context;  ///< facts for its records
    EvaluationSteps evaluations;
    bool is_quiet = false;  ///< says nothing on the terminal
  };

  explicit StepLog(Options options) : options_(std::move(options)) {}

  [[nodiscard]] const EvaluationSteps& evaluations() const noexcept { return options_.evaluations; }
  /// Opens metrics.jsonl behind step `done`. Throws Error when it cannot be written.
  void open(std::int64_t done);
  /// Last step of the records that were there.
  [[nodiscard]] std::int64_t last_step() const noexcept { return metrics_->last_step(); }
  /// Notes for the estimate of the time left that `done` steps are done.
  void note_time(std::int64_t done);
  /// Writes the record of a step, or holds it back. One that was held back is written before.
  void write(const StepReport& report);
  /// Prints the line of a step that has just ended.
  void show(const StepReport& report);
  /// Adds an evaluation to the record that is held back, and prints it.
  void add(const EvaluationReport& report);
  /// Whether the record of `step` is held back.
  [[nodiscard]] bool holds(std::int64_t step) const { return held_ && held_->step == step; }
  /// Writes the record that is held back, if there is one.
  void write_held();
  /// From now on records and lines have the second prediction, too.
  void set_repredicted(Seconds step_seconds);

  /// Prints a line that the next one replaces on a terminal, unless it `stays`.
  void print(const std::string& line, bool stays) const;
  /// Ends a line that the next one would replace.
  void end_line() const;

 private:
  void write_record(const StepReport& report);

  Options options_;
  Seconds repredicted_ = 0;  ///< 0: not yet
  std::optional<MetricsLog> metrics_;
  std::optional<StepReport> held_;  ///< report of a step that is evaluated
  TimeLeft left_;                   ///< estimate for all steps, with checkpoints and evaluations
  ProgressStyle style_ = progress_style_of_stderr();
};

}  // namespace athanor::cli
