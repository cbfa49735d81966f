// SPDX-License-Identifier: Apache-2.0
#include "executor/job/progress_printer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace athanor {

ProgressStyle progress_style_of_stderr() {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const char* const no_colour = std::getenv("NO_COLOR");
  return {.colour = terminal && (no_colour == nullptr || *no_colour == '\0'), .rewrite = terminal};
}

std::string progress_line(const StepReport& report, std::int64_t total_steps,
                          std::int64_t tokens_per_step, Seconds predicted_seconds,
                          std::optional<Seconds> left) {
  constexpr double kMilliseconds = 1e3;
  std::string line = fmt::format("step {}/{} | loss {:.4f}", report.step, total_steps, report.loss);
  if (report.gradient_norm) line += fmt::format(" | norm {:.3f}", *report.gradient_norm);
  line +=
      fmt::format(" | lr {:.2e} | {:.1f} ms", report.learning_rate, report.seconds * kMilliseconds);
  if (predicted_seconds > 0) {
    line += fmt::format(" (predicted {:.1f})", predicted_seconds * kMilliseconds);
  }
  if (tokens_per_step > 0 && report.seconds > 0) {
    line += fmt::format(" | {:.0f} tok/s", static_cast<double>(tokens_per_step) / report.seconds);
  }
  if (left && report.step < total_steps) line += " | " + time_left_text(*left);
  return line;
}

std::string evaluation_line(std::int64_t step, const EvaluationReport& report) {
  return fmt::format(
      "evaluation after step {}: loss {:.4f}, perplexity {:.4g}, {} targets in {:.1f} s", step,
      report.loss, report.perplexity(), report.num_targets, report.seconds);
}

std::string checkpoint_line(const CheckpointReport& report) {
  std::string line =
      fmt::format("checkpoint of step {} written in {}: training stood for {}", report.step,
                  format_seconds(report.write), format_seconds(report.stopped + report.waited));
  if (report.waited > 0) {
    line += fmt::format(", {} of it to wait for the disk", format_seconds(report.waited));
  }
  return line;
}

}  // namespace athanor
