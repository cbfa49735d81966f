// SPDX-License-Identifier: Apache-2.0
// Rates of a calibration and of a run, combined by their spreads.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/rates/rates.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace athanor {

/// Evidence of one rate before and after a run has measured it. Spreads are relative standard
/// deviations.
struct RateEvidence {
  double repetition = 0;   ///< spread of one repetition in the calibration; 0: not recorded
  double drift = 0;        ///< spread of rates in runs around their calibration
  double deviation = 0;    ///< logarithm of the run's rate over the calibration's
  std::int64_t count = 0;  ///< operations that the run has measured, over all steps
  std::optional<double> measured = std::nullopt;  ///< standard error in the run; none: not known

  /// sqrt(repetition^2 + D^2): how far the run's rate may lie from the calibration's. D is the
  /// drift, or more where the run shows it: D^2 = max(drift^2, deviation^2 - repetition^2 - m^2),
  /// with m the measured spread. What neither spread explains of a deviation is a change of the
  /// machine.
  [[nodiscard]] double calibrated_spread() const noexcept;
  /// max(measured, repetition / sqrt(count)): a few steps can agree by chance, and repetitions of
  /// the calibration say by how much. Where nothing is measured of it, sqrt(repetition^2 +
  /// drift^2).
  [[nodiscard]] double measured_spread() const noexcept;
  /// Weight of the run's rate by inverse variance: c^2 / (c^2 + m^2), with c the calibrated spread
  /// and m the measured one; 0 if nothing was measured, and 1 if neither is spread.
  [[nodiscard]] double weight() const noexcept;
};

/// Mean of two rates, of which `measured` has the weight. Rates are ratios, so it is the mean of
/// their logarithms: predicted^(1 - weight) * measured^weight. Both are above 0.
[[nodiscard]] Seconds combined_seconds(Seconds predicted, Seconds measured, double weight) noexcept;

/// One rate before and after a run. Seconds are of all its operations in a step, on the slowest
/// rank.
struct CombinedRate {
  RateKey key;
  std::int64_t count = 0;  ///< operations of a step
  double amount = 0;       ///< bytes or elements of a step; 0: neither tells its work
  Seconds predicted = 0, measured = 0, combined = 0;
  double calibrated_spread = 0, measured_spread = 0;
  double weight = 0;  ///< weight of `measured`
};

struct CombinedLaunches {
  std::int64_t count = 0;
  Seconds calibrated = 0, measured = 0, combined = 0;
  double calibrated_spread = 0, measured_spread = 0, weight = 0;
};

struct CombinedRates {
  std::vector<CombinedRate> rates;  ///< those that both know, in the order of their keys
  std::optional<CombinedLaunches> launches = std::nullopt;
};

/// Combines what was predicted for `program` (measure_rates() of its predicted timeline) with what
/// a run measured. `repetitions`: repetition_spreads(). `platform`: the one that it was predicted
/// on, whose pooled rates are surer than one look's.
[[nodiscard]] CombinedRates combine_rates(const Program& program, const MeasuredRates& predicted,
                                          const MeasuredRates& measured,
                                          const std::map<RateKey, double>& repetitions,
                                          const Platform& platform);

}  // namespace athanor
