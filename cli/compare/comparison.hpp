// SPDX-License-Identifier: Apache-2.0
// Compares the predictions and measurements of one run folder.
#pragma once

#include "cli/compare/clipped_steps.hpp"
#include "cli/compare/run_data.hpp"
#include "cli/rates/plan_changes.hpp"
#include "sim/engine/engine.hpp"
#include "sim/model/timeline.hpp"
#include "sim/rates/combined_rates.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

/// Seconds of one kind of operation on one lane in one step, on the slowest rank, without waiting
/// for others in collectives (seconds_by_kind); seconds of issuing are rank 0's.
struct KindComparison {
  OpKind kind = OpKind::Forward;
  Lane lane = Lane::Compute;
  std::int64_t count = 0;
  Seconds predicted = 0;
  Seconds measured = 0;  ///< mean over the measured steps, both of the slowest rank
  Seconds predicted_issue = 0, measured_issue = 0;  ///< host time to launch them; or 0
};

struct Comparison {
  std::vector<KindComparison> kinds;
  Seconds predicted_step = 0, measured_step = 0;
  Seconds predicted_step_with_rates = 0;  ///< by the rates that the run measured
  Seconds predicted_step_combined = 0;    ///< by these and the calibration's, by their spreads
  std::optional<Seconds>
      repredicted_step;  ///< the run's own second prediction, from its first steps
  CombinedRates rates;
  std::vector<PlanChange> changes;
  std::vector<Seconds> phase_seconds_by_rank;  ///< measured forward, recompute and backward
  std::optional<ClippedSteps> clipped;         ///< where updates do not wait for the norm
  Seconds low_step = 0, high_step = 0;         ///< eight in ten measured steps are between them
  std::int64_t num_steps = 0;                  ///< number of measured steps
  TierBytes predicted_peak, measured_peak;     ///< memory of one rank
  bool on_gpus = false;
  /// Relative error of the predicted step time.
  [[nodiscard]] double step_error() const noexcept;
  /// Relative error of `seconds`, of a step.
  [[nodiscard]] double error_of(Seconds seconds) const noexcept;
};

/// Compares what a run measured with the timeline that was predicted for its program, and predicts
/// it once more on `engine` with the rates that it measured.
[[nodiscard]] Comparison compare_timelines(const RunData& run, const Timeline& predicted,
                                           Engine& engine);

/// A comparison, and the predicted timeline as a trace.
struct RunComparison {
  Comparison comparison;
  std::string predicted_trace;
};

/// Lowers and simulates RUN/plan.json with RUN/profile.json and RUN/platform.json, and compares it
/// with RUN/measured.trace.json and RUN/metrics.jsonl.
[[nodiscard]] RunComparison compare_run(const std::string& run);

}  // namespace athanor::cli
