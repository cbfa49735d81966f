// SPDX-License-Identifier: Apache-2.0
// The line per step that a person reads.
#pragma once

#include "executor/job/step_report.hpp"

#include <cstdint>
#include <string>

namespace athanor {

struct ProgressStyle {
  bool colour = false;
  bool rewrite = false;  ///< on a terminal the line is rewritten in place
};

/// Colour and rewriting where stderr is a terminal; NO_COLOR is honoured.
[[nodiscard]] ProgressStyle progress_style_of_stderr();

/// "step 12/50 | loss 4.1234 | norm 1.23 | lr 3.0e-04 | 45.1 ms (predicted 44.0) | 22.7k tok/s"
[[nodiscard]] std::string progress_line(const StepReport& report, std::int64_t total_steps,
                                        std::int64_t tokens_per_step, Seconds predicted_seconds);

}  // namespace athanor
