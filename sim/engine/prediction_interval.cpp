// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/prediction_interval.hpp"

#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace athanor {
namespace {

/// Standard deviations that bound a tenth of a normal distribution.
constexpr double kDeviationsOfTenth = 1.2815515655446004;

/// The most that a lane's rate deviates, as a logarithm: a factor of a thousand. Repetitions of a
/// short operation may scatter by more than its median many times over.
constexpr double kMostSpread = 6.907755278982137;

struct LaneRates {
  Seconds seconds = 0;  ///< time of its operations in a step
  double variance = 0;  ///< variance of that time by how operations scatter
};

std::array<LaneRates, kNumLanes> lane_rates(const MeasuredRates& predicted,
                                            const std::map<RateKey, double>& repetitions) {
  std::array<LaneRates, kNumLanes> lanes{};
  for (const auto& [key, rate] : predicted.rates) {
    LaneRates& lane = lanes.at(lane_index(key.lane));
    lane.seconds += rate.seconds;
    const auto spread = repetitions.find(key);
    if (spread == repetitions.end() || rate.count == 0) continue;
    lane.variance += std::pow(rate.seconds * spread->second, 2) / static_cast<double>(rate.count);
  }
  return lanes;
}

/// Simulates with options that `change` makes for rates so many standard deviations faster.
template <typename Change>
RateDeviation deviation(Engine& engine, const Program& program, const Change& change) {
  const auto at = [&](double deviations) {
    SimulationOptions options{.record_intervals = false};
    change(options, deviations);
    return engine.simulate(program, options).step_seconds;
  };
  return {at(1), at(-1)};
}

}  // namespace

PredictionInterval interval_of(Seconds step_seconds, const std::vector<RateDeviation>& deviations) {
  double faster = 0, slower = 0;
  for (const RateDeviation& of : deviations) {
    faster += std::pow(std::log(of.fast / step_seconds), 2);
    slower += std::pow(std::log(of.slow / step_seconds), 2);
  }
  return {step_seconds * std::exp(-kDeviationsOfTenth * std::sqrt(faster)),
          step_seconds * std::exp(kDeviationsOfTenth * std::sqrt(slower))};
}

RateDeviation deviation_between(Seconds low, Seconds step_seconds, Seconds high) {
  return {step_seconds * std::pow(low / step_seconds, 1 / kDeviationsOfTenth),
          step_seconds * std::pow(high / step_seconds, 1 / kDeviationsOfTenth)};
}

std::vector<RateDeviation> rate_deviations(Engine& engine, const Program& program,
                                           const Timeline& predicted,
                                           const std::map<RateKey, double>& repetitions,
                                           const Platform& platform,
                                           const BorrowedRates& borrowed) {
  const auto lanes = lane_rates(measure_rates(program, predicted), repetitions);
  std::vector<RateDeviation> deviations;
  for (const Lane lane : kLanes) {
    const LaneRates& of = lanes.at(lane_index(lane));
    if (of.seconds <= 0) continue;
    const double scatter = of.variance / (of.seconds * of.seconds);
    const double spread = std::min(
        std::hypot(drift_of(lane, platform), std::sqrt(scatter), borrowed_spread(lane, borrowed)),
        kMostSpread);
    deviations.push_back(
        deviation(engine, program, [=](SimulationOptions& options, double deviations_faster) {
          options.lane_speed.at(lane_index(lane)) = std::exp(deviations_faster * spread);
        }));
  }
  const double launches = std::hypot(kLaunchDrift, borrowed_launch_spread(borrowed));
  deviations.push_back(
      deviation(engine, program, [=](SimulationOptions& options, double deviations_faster) {
        options.issue_speed = std::exp(deviations_faster * launches);
      }));
  deviations.push_back({predicted.step_seconds * std::exp(-kModelSpread),
                        predicted.step_seconds * std::exp(kModelSpread)});
  return deviations;
}

}  // namespace athanor
