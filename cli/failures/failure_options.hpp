// SPDX-License-Identifier: Apache-2.0
// Values of --failures and --snapshot, as athanor simulate reads them.
#pragma once

#include "sim/failures/failure_forecast.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::cli {

/// One rate of --failures, such as 1.5%/machine/day.
struct FailureRate {
  enum class Unit { Machine, Gpu, Job };
  Unit unit = Unit::Machine;
  double per_second = 0;  ///< for each unit
  int num_machines = 1;   ///< neighbours that fail together; 0: processes alone (a job's)
};

/// Reads rates "NUMBER[%]/UNIT/PERIOD,..". UNIT is machine, gpu, Nmachines (a rack of N neighbours)
/// or job (processes alone, memory stays); PERIOD is hour, day, week, month (30 days) or year.
/// Throws InputError that names --failures.
[[nodiscard]] std::vector<FailureRate> parse_failure_rates(const std::string& text);

/// Returns the sources that the rates stand for in a job of so many machines and GPUs.
[[nodiscard]] std::vector<FailureSource> failure_sources(const std::vector<FailureRate>& rates,
                                                         int num_machines, int num_gpus);

/// The value of --snapshot.
struct SnapshotChoice {
  std::int64_t every = 1;  ///< steps
  int copies = 2;
  PlacementRule rule = PlacementRule::Mixed;
  int jump = 1;
};

/// Reads "every=N,copies=M,placement=RULE,jump=J"; what is left out keeps its default. Throws
/// InputError that names --snapshot.
[[nodiscard]] SnapshotChoice parse_snapshot(const std::string& text);

}  // namespace athanor::cli
