// SPDX-License-Identifier: Apache-2.0
// A run folder whose rates were measured, and its step with them.
#pragma once

#include "sim/engine/measured_rates.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/timeline.hpp"
#include "sim/rates/combined_rates.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace athanor::cli {

struct RatedRun {
  Plan plan;
  Profile profile;
  Platform platform;
  MeasuredRates measured;
  Program program;
  Seconds predicted = 0;   ///< step by the calibration alone
  CombinedRates combined;  ///< calibration and run, by their spreads
  RatedStep again;         ///< the step with these
};

/// Reads plan, profile, platform and rates.json of a run folder, and simulates its step with and
/// without the rates, on an engine that is gone when this returns. Throws InputError that names the
/// first file that is missing or broken.
[[nodiscard]] RatedRun rate_run(const std::string& run);

/// Ends this process with the one that wants its answer, however that ends. Throws Error where it
/// has ended already.
void end_with(pid_t parent);

/// Returns "adam on cpu-adam takes 3.2 times as long as predicted" for the rates that change the
/// most seconds of a step, the largest change first, at most three. Changes below 1 % of the step
/// are left out.
[[nodiscard]] std::vector<std::string> moved_rates(const RatedRun& run);

}  // namespace athanor::cli
