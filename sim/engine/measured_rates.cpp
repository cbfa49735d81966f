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

/// Scales each rate's operations in `scale` by wanted over found. Returns the largest deviation of
/// that factor from one.
double adjust(std::vector<double>& scale, const Program& program, const MeasuredRates& found,
              const std::map<RateKey, Seconds>& wanted) {
  std::map<RateKey, double> factors;
  double largest = 0;
  for (const auto& [key, seconds] : wanted) {
    const auto rate = found.rates.find(key);
    if (rate == found.rates.end() || rate->second.seconds <= 0 || seconds <= 0) continue;
    factors[key] = seconds / rate->second.seconds;
    largest = std::max(largest, std::abs(factors[key] - 1));
  }
  for (std::size_t i = 0; i < scale.size(); ++i) {
    const auto factor = factors.find(rate_key(program.operations[i], program));
    if (factor != factors.end()) scale[i] *= factor->second;
  }
  return largest;
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

Timeline simulate_with_rates(Engine& engine, const Program& program, const Timeline& predicted,
                             const WantedRates& rates) {
  SimulationOptions options;
  options.operation_scale.assign(program.operations.size(), 1);
  options.issue_speed = 1 / rates.launch_factor;
  Timeline again = rates.launch_factor == 1 ? predicted : engine.simulate(program, options);
  for (int round = 0; round < kRounds; ++round) {
    const MeasuredRates found = measure_rates(program, again);
    if (adjust(options.operation_scale, program, found, rates.seconds) < kAgreement) break;
    again = engine.simulate(program, options);
  }
  return again;
}

}  // namespace athanor
