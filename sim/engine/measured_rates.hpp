// SPDX-License-Identifier: Apache-2.0
// A prediction with the rates that a run measured: what is left of its error is the order of
// operations and waiting, not how long operations take.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/model/timeline.hpp"
#include "sim/rates/combined_rates.hpp"
#include "sim/rates/rates.hpp"

#include <map>

namespace athanor {

/// How long the operations of each rate shall take in a step on the slowest rank, and how many
/// times as long as calibrated a launch shall take.
struct WantedRates {
  std::map<RateKey, Seconds> seconds;
  double launch_factor = 1;
};

/// Takes every rate as the run measured it.
[[nodiscard]] WantedRates wanted(const MeasuredRates& measured);
/// Takes every rate by the spreads of calibration and run.
[[nodiscard]] WantedRates wanted(const CombinedRates& combined);

/// A simulated step, and the factors that gave its operations the rates that they have.
struct RatedStep {
  Timeline timeline;
  RateFactors factors;  ///< without the rates that nothing was wanted of
};

/// Simulates `program`, whose simulation gave `predicted`, with each rate as wanted. A factor
/// scales a rate's own cost, beside whatever disturbs it. It is found in at most five rounds, which
/// end once every rate is within 0.5 %. Rates that nothing is wanted of stay.
[[nodiscard]] RatedStep fit_rates(Engine& engine, const Program& program, const Timeline& predicted,
                                  const WantedRates& rates);
/// Returns the step of fit_rates().
[[nodiscard]] Timeline simulate_with_rates(Engine& engine, const Program& program,
                                           const Timeline& predicted, const WantedRates& rates);

}  // namespace athanor
