// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/measured_rates.hpp"

#include "sim/rates/measure_rates.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor {
namespace {

constexpr int kRounds = 5;
constexpr double kAgreement = 0.005;

/// Multiplies each factor by wanted over found. Returns the largest deviation from one of those.
double adjust(std::map<RateKey, double>& factors, const MeasuredRates& found,
              const std::map<RateKey, Seconds>& wanted) {
  double largest = 0;
  for (const auto& [key, seconds] : wanted) {
    const auto rate = found.rates.find(key);
    if (rate == found.rates.end() || rate->second.seconds <= 0 || seconds <= 0) continue;
    const double change = seconds / rate->second.seconds;
    factors.try_emplace(key, 1).first->second *= change;
    largest = std::max(largest, std::abs(change - 1));
  }
  return largest;
}

/// Returns the factor of each operation.
std::vector<double> scale_of(const Program& program, const std::map<RateKey, double>& factors) {
  std::vector<double> scale;
  scale.reserve(program.operations.size());
  for (const Operation& op : program.operations) {
    const auto factor = factors.find(rate_key(op, program));
    scale.push_back(factor == factors.end() ? 1 : factor->second);
  }
  return scale;
}

}  // namespace

WantedRates wanted(const MeasuredRates& measured) {
  WantedRates rates;
  for (const auto& [key, rate] : measured.rates) rates.seconds[key] = rate.seconds;
  const auto& launches = measured.launches;
  if (launches && launches->calibrated > 0 && launches->seconds > 0) {
    rates.launch_factor = launches->seconds / launches->calibrated;
  }
  return rates;
}

WantedRates wanted(const CombinedRates& combined) {
  WantedRates rates;
  for (const CombinedRate& rate : combined.rates) rates.seconds[rate.key] = rate.combined;
  if (combined.launches) {
    rates.launch_factor = combined.launches->combined / combined.launches->calibrated;
  }
  return rates;
}

RatedStep fit_rates(Engine& engine, const Program& program, const Timeline& predicted,
                    const WantedRates& rates) {
  SimulationOptions options;
  options.issue_speed = 1 / rates.launch_factor;
  RatedStep step{
      .timeline = rates.launch_factor == 1 ? predicted : engine.simulate(program, options),
      .factors = {.operations = {}, .launch = rates.launch_factor}};
  for (int round = 0; round < kRounds; ++round) {
    const MeasuredRates found = measure_rates(program, step.timeline);
    if (adjust(step.factors.operations, found, rates.seconds) < kAgreement) break;
    options.operation_scale = scale_of(program, step.factors.operations);
    step.timeline = engine.simulate(program, options);
  }
  return step;
}

Timeline simulate_with_rates(Engine& engine, const Program& program, const Timeline& predicted,
                             const WantedRates& rates) {
  return fit_rates(engine, program, predicted, rates).timeline;
}

}  // namespace athanor
