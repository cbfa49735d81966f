// SPDX-License-Identifier: Apache-2.0
// How far a run's step time may lie from its prediction.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/rates/borrowed_rates.hpp"
#include "sim/rates/rates.hpp"

#include <map>
#include <vector>

namespace athanor {

/// Bounds between which 80 % of runs are expected: a tenth below and a tenth above.
struct PredictionInterval {
  Seconds p10 = 0, p90 = 0;
};

/// Step times under one rate that is a standard deviation faster, and as much slower.
struct RateDeviation {
  Seconds fast = 0, slow = 0;
};

/// Interval of `step_seconds` under deviations that are independent of each other. Squares of the
/// logarithms of their effects add up, separately to each side, and 1.2816 standard deviations
/// bound a tenth of a normal distribution.
[[nodiscard]] PredictionInterval interval_of(Seconds step_seconds,
                                             const std::vector<RateDeviation>& deviations);

/// Returns the deviation whose own interval of `step_seconds` is from `low` to `high`.
[[nodiscard]] RateDeviation deviation_between(Seconds low, Seconds step_seconds, Seconds high);

/// Relative standard deviation of predictions from a run's own rates. Their errors are 1.8 % on
/// average over runs that no constant was fitted to: the mean of a half-normal distribution of this
/// width.
inline constexpr double kModelSpread = 0.0226;

/// Simulates `program`, whose simulation gave `predicted`, with each rate a standard deviation
/// faster and slower: kernels, collectives, each direction of copies, CPU Adam, files and launches.
/// A lane's variance has three parts: how rates lie around those of `platform` (drift_of()), how
/// the mean of its operations scatters, by `repetitions` (repetition_spreads()), and how far rates
/// are off that are `borrowed` (borrowed_spread()). The last deviation is kModelSpread. It stands
/// for the order of operations and waiting.
[[nodiscard]] std::vector<RateDeviation> rate_deviations(
    Engine& engine, const Program& program, const Timeline& predicted,
    const std::map<RateKey, double>& repetitions, const Platform& platform,
    const BorrowedRates& borrowed = {});

}  // namespace athanor
