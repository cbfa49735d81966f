// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/calibrated_spreads.hpp"

#include "sim/cost/costs.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/rates/measure_rates.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace athanor {
namespace {

void slow(Curve& curve) {
  for (Curve::Point& point : curve.points) point.seconds += point.spread / kQuartiles;
}

void slow(PhaseCost& phase) {
  phase.seconds += phase.spread / kQuartiles;
  if (phase.replay) phase.replay->seconds += phase.spread / kQuartiles;
}

/// Returns the platform with every curve slower by one standard deviation. The costs of operations
/// follow from curves, so that those of both platforms differ by the operations' own.
Platform slower(Platform platform) {
  for (Curve Platform::* curve :
       {&Platform::h2d, &Platform::d2h, &Platform::d2h_add, &Platform::device_adam,
        &Platform::device_square_sum, &Platform::host_square_sum, &Platform::file_read,
        &Platform::file_write}) {
    slow(platform.*curve);
  }
  for (const RingCollective& ring : kRingCollectives) {
    for (CollectiveCurve& collective : platform.*ring.curves) slow(collective.curve);
  }
  for (auto* curves : {&platform.cpu_adam, &platform.cpu_adam_beside}) {
    for (auto& [threads, curve] : *curves) slow(curve);
  }
  return platform;
}

/// Returns the profile with every phase slower by one standard deviation.
Profile slower(Profile profile) {
  for (UnitCost& cost : profile.costs) {
    for (std::size_t i = 0; i < kUnitPhases.size(); ++i) {
      for (PhaseCost* const phase : costs_of_phase(cost, i)) slow(*phase);
    }
  }
  return profile;
}

}  // namespace

std::map<RateKey, double> repetition_spreads(const Program& program, const Profile& profile,
                                             const Plan& plan, const Platform& platform) {
  const std::vector<Seconds> seconds = solo_seconds(program, platform);
  const std::vector<Seconds> longer = solo_seconds(lower(slower(profile), plan), slower(platform));
  std::map<RateKey, Seconds> totals, deviations;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const RateKey key = rate_key(program.operations[i], program);
    totals[key] += seconds[i];
    deviations[key] += longer[i] - seconds[i];
  }
  std::map<RateKey, double> spreads;
  for (const auto& [key, total] : totals) {
    spreads[key] = total > 0 ? std::max(0.0, deviations[key] / total) : 0;
  }
  return spreads;
}

double drift_of(Lane lane) noexcept {
  constexpr double kAdam = 0.097, kFiles = 0.19, kOthers = 0.039;
  if (is_nvme_lane(lane)) return kFiles;
  return lane == Lane::CpuAdam ? kAdam : kOthers;
}

double drift_of(Lane lane, const Platform& platform) noexcept {
  const auto pooled = platform.pooled.find(lane);
  return pooled == platform.pooled.end() ? drift_of(lane) : pooled->second.spread;
}

}  // namespace athanor
