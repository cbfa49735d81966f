// SPDX-License-Identifier: Apache-2.0
// Monte Carlo over failures: what a long run's time is expected to go to, with standard errors.
#pragma once

#include "sim/failures/replay_failures.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// A cause of failures, which come as a Poisson process.
struct FailureSource {
  double per_second = 0;   ///< over the whole job
  int num_machines = 1;    ///< that fail at once; 0: processes alone
  bool is_domain = false;  ///< they are neighbours, such as those of a rack; else any
};

/// Draws the failures of all sources on machines 0 to num_machines - 1 up to `horizon`, in order of
/// time. Equal seeds give equal failures on every platform.
[[nodiscard]] std::vector<Failure> draw_failures(const std::vector<FailureSource>& sources,
                                                 int num_machines, Seconds horizon,
                                                 std::uint64_t seed);

struct Estimate {
  double mean = 0;
  double standard_error = 0;
};

/// Shares of the time of many runs, and how they recovered.
struct FailureForecast {
  Estimate training, snapshots, checkpoints, lost, restarts, retrievals;  ///< they add up to 1
  Estimate num_failures;                                                  ///< in one run
  Estimate from_disk;  ///< share of failures that need the disk; 0 where there were none
};

/// Replays `num_runs` runs of `horizon` seconds, at least two, each under failures of its own.
[[nodiscard]] FailureForecast forecast_failures(const TrainingRun& run,
                                                const std::vector<FailureSource>& sources,
                                                Seconds horizon, int num_runs, std::uint64_t seed);

/// Probability that a failure of these sources alone leaves no copy of some state: exact, if every
/// failure finds a whole snapshot in the memory of all machines.
[[nodiscard]] double fatal_share(const TrainingRun& run, const std::vector<FailureSource>& sources);

}  // namespace athanor
