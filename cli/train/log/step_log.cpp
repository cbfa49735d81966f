// SPDX-License-Identifier: Apache-2.0
#include "cli/train/log/step_log.hpp"

#include "executor/backend/steady_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace athanor::cli {

bool EvaluationSteps::contains(std::int64_t step) const {
  return every > 0 && (step % every == 0 || step == last);
}

std::int64_t EvaluationSteps::after(std::int64_t step) const {
  return every > 0 ? std::min(last, (step / every + 1) * every) : last;
}

void StepLog::open(std::int64_t done) {
  metrics_.emplace(options_.metrics, done, options_.context);
}

void StepLog::note_time(std::int64_t done) {
  left_.note(steady_seconds(),
             static_cast<double>(done) / static_cast<double>(options_.evaluations.last));
}

void StepLog::write(const StepReport& report) {
  write_held();
  if (options_.evaluations.contains(report.step)) {
    held_ = report;
  } else {
    write_record(report);
  }
}

void StepLog::write_record(const StepReport& report) {
  const std::string remark = metrics_->write(report);
  if (remark.empty()) return;
  end_line();
  fmt::print(stderr, "athanor-train: {}\n", remark);
}

void StepLog::show(const StepReport& report) {
  note_time(report.step);
  if (options_.is_quiet) return;
  print(progress_line(report, options_.evaluations.last, options_.context.tokens_per_step,
                      repredicted_ > 0 ? repredicted_ : options_.context.predicted_step_seconds,
                      left_.left()),
        /*stays=*/options_.evaluations.contains(report.step) ||
            report.step == options_.evaluations.last);
}

void StepLog::add(const EvaluationReport& report) {
  held_->evaluation = report;
  if (!options_.is_quiet) print(evaluation_line(held_->step, report), /*stays=*/true);
}

void StepLog::write_held() {
  if (held_) write_record(*std::exchange(held_, std::nullopt));
}

void StepLog::set_repredicted(Seconds step_seconds) {
  repredicted_ = step_seconds;
  metrics_->set_repredicted(step_seconds);
}

void StepLog::print(const std::string& line, bool stays) const {
  fmt::print(stderr, "{}{}{}", style_.rewrite ? "\r\033[K" : "", line,
             style_.rewrite && !stays ? "" : "\n");
  std::fflush(stderr);
}

void StepLog::end_line() const {
  if (style_.rewrite && !options_.is_quiet) fmt::print(stderr, "\n");
}

}  // namespace athanor::cli
