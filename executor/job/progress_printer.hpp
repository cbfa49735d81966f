// SPDX-License-Identifier: Apache-2.0
// Formats the lines that a run prints after every step and every evaluation.
#pragma once

#include "executor/job/step_report.hpp"
#include "sim/base/progress.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

struct ProgressStyle {
  bool colour = false;
  bool rewrite = false;  ///< on a terminal the line is rewritten in place
};

/// Returns colour and rewriting for a terminal on stderr, and neither otherwise. NO_COLOR is
/// honoured.
[[nodiscard]] ProgressStyle progress_style_of_stderr();

/// Formats "step 12/50 | loss 4.1234 | norm 1.23 | lr 3.0e-04 | 45.1 ms (predicted 44.0) | 22.7k
/// tok/s | 12 min left", the last where the time left is known.
[[nodiscard]] std::string progress_line(const StepReport& report, std::int64_t total_steps,
                                        std::int64_t tokens_per_step, Seconds predicted_seconds,
                                        std::optional<Seconds> left = std::nullopt);

/// Formats "evaluation after step 50: loss 3.9876, perplexity 53.93, 12288 targets in 0.4 s".
[[nodiscard]] std::string evaluation_line(std::int64_t step, const EvaluationReport& report);

/// Formats "checkpoint of step 50 written in 3.2 s: training stood for 210 ms", and how much of
/// that it waited for the disk.
[[nodiscard]] std::string checkpoint_line(const CheckpointReport& report);

}  // namespace athanor
