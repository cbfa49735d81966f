// SPDX-License-Identifier: Apache-2.0
// A simulated plan as a long run under failures: which machines it has, what its snapshots and
// checkpoints cost, and what they leave of a month.
#pragma once

#include "cli/failures/failure_options.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/failures/snapshot_traffic.hpp"
#include "sim/failures/waste.hpp"

#include <optional>
#include <vector>

namespace athanor::cli {

inline constexpr Seconds kMonth = 30 * kDay;

/// A plan's run. Times follow from the plan, its simulated step and the platform.
struct FailureRun {
  TrainingRun run;
  std::vector<FailureSource> sources;
  int num_months = 0;                      ///< to simulate: fewer where each has many failures
  std::optional<SnapshotTraffic> traffic;  ///< absent: no snapshots in memory
  std::int64_t every = 0;                  ///< steps between snapshots; 0 without them
  Bytes state_bytes = 0;                   ///< the whole job
  Bytes snapshot_host_bytes = 0;  ///< two versions of all copies that a machine holds; 0 without
  Bytes host_room = 0;            ///< left by the plan of a machine's host memory
  Seconds store_write = 0;        ///< one checkpoint through the shared store
};

/// Returns the run that the options ask for. Throws InputError where machines, copies and jump do
/// not go together, or the machines have no network to send copies over.
[[nodiscard]] FailureRun failure_run(const FailureOptions& options, const Report& report,
                                     const TuningProblem& problem);

/// Interval that would waste least: of snapshots in steps (0 without them), of checkpoints in
/// seconds of training.
struct BestIntervals {
  std::int64_t snapshot_steps = 0;
  Seconds checkpoint = 0;
};
[[nodiscard]] BestIntervals best_intervals(const FailureRun& run);

}  // namespace athanor::cli
