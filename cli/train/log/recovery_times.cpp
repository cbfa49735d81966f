// SPDX-License-Identifier: Apache-2.0
#include "cli/train/log/recovery_times.hpp"

#include "sim/base/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace athanor::cli {

void RecoveryTimes::note_load(bool from_memory, Seconds start, Seconds end) {
  loaded_at_ = end;
  double ending = 0, started = 0;
  const char* const text = std::getenv(kRestartVariable);
  const bool is_restart = text != nullptr && std::sscanf(text, "%lf %lf", &ending, &started) == 2;
  if (!from_memory && !is_restart) return;
  report_ = {.from = from_memory ? "memory" : "checkpoint",
             .ending = std::nullopt,
             .restart = std::nullopt,
             .load = end - start};
  if (!is_restart) return;
  report_->ending = ending;
  report_->restart = std::max(0.0, seconds_since_epoch() - started - report_->load);
}

std::optional<RecoveryReport> RecoveryTimes::end(Seconds now) {
  if (report_) report_->first_step = now - loaded_at_;
  return std::exchange(report_, std::nullopt);
}

std::string recovery_line(const RecoveryReport& report, std::int64_t step) {
  std::string text = fmt::format("went on from {}: ", report.from);
  if (report.ending)
    text += fmt::format("{} until all had ended, ", format_seconds(*report.ending));
  if (report.restart) text += fmt::format("{} to restart, ", format_seconds(*report.restart));
  return text + fmt::format("{} to load, {} to the end of step {}", format_seconds(report.load),
                            format_seconds(report.first_step), step);
}

}  // namespace athanor::cli
