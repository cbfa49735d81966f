// SPDX-License-Identifier: Apache-2.0
// Reads a run folder for comparison: its inputs, and what was measured.
#pragma once

#include "cli/rates/plan_changes.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

/// One line of metrics.jsonl, one step, and where it stands ("file:line") for messages.
struct MetricsLine {
  nlohmann::json values;
  std::string where;
};

/// Key of metrics.jsonl with the seconds of a step.
inline constexpr const char* kStepSecondsKey = "time_metrics/end_to_end(s)";

/// Reads the steps of metrics.jsonl, and leaves out a last line that is not whole. Throws
/// InputError (file:line) for another line that is no JSON object, or if there is no line.
[[nodiscard]] std::vector<MetricsLine> read_metrics_lines(const std::string& path);

/// Figures of metrics.jsonl: the median step after the first two (warm-up), its first and ninth
/// decile, and the highest device memory.
struct Metrics {
  Seconds step_seconds = 0, low_seconds = 0, high_seconds = 0;
  Bytes peak_bytes = 0;
  std::int64_t num_steps = 0;
  std::vector<double> gradient_norms;  ///< steps that have one
};

/// Sums up the lines, of which there is one or more. Throws InputError (file:line) for a line
/// without kStepSecondsKey and "memory/device_peak_bytes".
[[nodiscard]] Metrics metrics_of(const std::vector<MetricsLine>& lines);

/// Content of a run folder: its inputs, the program that they give, and what was measured.
struct RunData {
  Plan plan;
  Profile profile;
  Platform platform;
  std::vector<MetricsLine> steps;
  std::size_t first_of_last_plan =
      0;                            ///< in steps: the first since it was resumed with another plan
  Metrics metrics;                  ///< figures of the steps under the plan that it had last
  std::vector<PlanChange> changes;  ///< changes of its plan, the oldest first
  std::optional<Seconds> repredicted_step;  ///< prediction in run.json
  Program program;
  Timeline measured;
};

/// Returns the steps since the run was last resumed with another plan; all where it never was.
[[nodiscard]] std::vector<MetricsLine> steps_since_resumed(const RunData& run);

/// Reads plan, profile, platform, metrics and timeline of a run folder. Throws InputError that
/// names the first that is missing or broken.
[[nodiscard]] RunData read_run(const std::string& run);

}  // namespace athanor::cli
