// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/combined_rates.hpp"

#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"

#include <algorithm>
#include <cmath>

namespace athanor {
namespace {

/// Returns bytes or elements that the operations of each rate move or update in a step.
std::map<RateKey, double> amounts_of(const Program& program) {
  std::map<RateKey, double> amounts;
  for (const Operation& op : program.operations) {
    amounts[rate_key(op, program)] += static_cast<double>(op.elements > 0 ? op.elements : op.bytes);
  }
  return amounts;
}

CombinedLaunches combine_launches(const MeasuredLaunches& launches, std::int64_t num_steps) {
  const RateEvidence evidence{.repetition = 0,
                              .drift = kLaunchDrift,
                              .deviation = std::log(launches.seconds / launches.calibrated),
                              .count = launches.count * num_steps,
                              .measured = launches.spread};
  return {.count = launches.count,
          .calibrated = launches.calibrated,
          .measured = launches.seconds,
          .combined = combined_seconds(launches.calibrated, launches.seconds, evidence.weight()),
          .calibrated_spread = evidence.calibrated_spread(),
          .measured_spread = evidence.measured_spread(),
          .weight = evidence.weight()};
}

}  // namespace

double RateEvidence::measured_spread() const noexcept {
  if (!measured || count <= 0) return std::hypot(repetition, drift);
  return std::max(*measured, repetition / std::sqrt(static_cast<double>(count)));
}

double RateEvidence::calibrated_spread() const noexcept {
  const double run = measured_spread();
  const double unexplained = deviation * deviation - repetition * repetition - run * run;
  return std::sqrt(repetition * repetition + std::max(drift * drift, unexplained));
}

double RateEvidence::weight() const noexcept {
  if (count <= 0) return 0;
  const double calibrated = calibrated_spread() * calibrated_spread();
  const double run = measured_spread() * measured_spread();
  return calibrated + run > 0 ? calibrated / (calibrated + run) : 1;
}

Seconds combined_seconds(Seconds predicted, Seconds measured, double weight) noexcept {
  return predicted * std::pow(measured / predicted, weight);
}

CombinedRates combine_rates(const Program& program, const MeasuredRates& predicted,
                            const MeasuredRates& measured,
                            const std::map<RateKey, double>& repetitions,
                            const Platform& platform) {
  const std::map<RateKey, double> amounts = amounts_of(program);
  CombinedRates combined;
  for (const auto& [key, rate] : measured.rates) {
    const auto before = predicted.rates.find(key);
    if (before == predicted.rates.end()) continue;
    const Seconds seconds = before->second.seconds;
    if (seconds <= 0 || rate.seconds <= 0) continue;
    const auto repetition = repetitions.find(key);
    const RateEvidence evidence{
        .repetition = repetition == repetitions.end() ? 0 : repetition->second,
        .drift = drift_of(key.lane, platform),
        .deviation = std::log(rate.seconds / seconds),
        .count = rate.count * measured.num_steps(),
        .measured = rate.spread};
    combined.rates.push_back(
        {.key = key,
         .count = rate.count,
         .amount = amounts.at(key),
         .predicted = seconds,
         .measured = rate.seconds,
         .combined = combined_seconds(seconds, rate.seconds, evidence.weight()),
         .calibrated_spread = evidence.calibrated_spread(),
         .measured_spread = evidence.measured_spread(),
         .weight = evidence.weight()});
  }
  const auto& launches = measured.launches;
  if (launches && launches->calibrated > 0 && launches->seconds > 0) {
    combined.launches = combine_launches(*launches, measured.num_steps());
  }
  return combined;
}

}  // namespace athanor
