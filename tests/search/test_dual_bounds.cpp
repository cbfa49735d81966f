// SPDX-License-Identifier: Apache-2.0
// Dual bounds are feasible in every state of a device, and tell copies that add from others.
#include "sim/bounds/lp_dual_bounds.hpp"
#include "sim/bounds/work_kinds.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kRounding = 1e-9;

/// Samples of random sets of lanes; copies to the host add in about half of them.
std::vector<ContentionSample> random_contention(std::mt19937& random) {
  std::uniform_real_distribution<double> slowdown(1, 3);
  std::bernoulli_distribution coin(0.5);
  std::vector<ContentionSample> samples;
  for (LaneSet set = 1; set < lane_bit(Lane::NvmeRead); ++set) {
    if ((set & (set - 1)) == 0 || coin(random)) continue;
    ContentionSample& sample = samples.emplace_back();
    sample.ranks = 1;
    for (const Lane lane : kLanes) {
      if ((set & lane_bit(lane)) != 0) sample.slowdown[lane] = slowdown(random);
    }
    sample.d2h_adds = sample.slowdown.contains(Lane::D2H) && coin(random);
  }
  return samples;
}

/// A device whose matrix products draw more than its limits, if `is_limited`.
std::optional<PowerModel> random_power(std::mt19937& random, bool is_limited) {
  if (!is_limited) return std::nullopt;
  std::uniform_real_distribution<double> watts(5, 200);
  PowerModel power;
  power.idle_watts = 100;
  power.limits = {{600, 0.3}, {700, 0.03}};
  power.lane_watts = {
      {Lane::Compute, 200 + watts(random)}, {Lane::H2D, watts(random)}, {Lane::D2H, watts(random)}};
  power.matmul_watts = 800 + watts(random);
  power.exponent = 2.5;
  return power;
}

/// Weight of what a state does in a second, but for kernels.
double weight_beside_kernels(const DualBound& bound, const ContentionModel& contention,
                             LaneSet running) {
  double weight = 0;
  for (std::size_t kind = 0; kind < kNumWorkKinds; ++kind) {
    const Lane lane = lane_of_work(kind);
    if (lane == Lane::Compute || (work_of(running) & work_bit(kind)) == 0) continue;
    weight += bound.weights[kind] / contention.slowdown(lane, running);
  }
  return weight;
}

/// A state of a device, as the engine has it: unthrottled, or with an empty budget.
struct State {
  double speed = 1;  ///< speed of the kernel
  double watts = 0;  ///< above idle
};

std::vector<State> states_of(LaneSet running, const PowerDraw& kernel,
                             const std::optional<PowerModel>& power) {
  if (!power) return {{}};
  double others = 0;
  for (const auto& [lane, watts] : power->lane_watts) {
    if (lane != Lane::Compute && (running & lane_bit(lane)) != 0) others += watts;
  }
  const bool computes = (running & lane_bit(Lane::Compute)) != 0;
  std::vector<State> states{{1, others + (computes ? kernel.watts : 0)}};
  for (const PowerLimit& limit : power->limits) {
    const double allowed = limit.watts - power->idle_watts;
    if (!computes) states.push_back({1, std::min(allowed, states.front().watts)});
    if (computes) {
      states.push_back({kernel.speed_at(allowed), std::min(allowed, others + kernel.watts)});
    }
  }
  return states;
}

double cost_of(const State& state, double multiplier, const std::optional<PowerModel>& power) {
  if (!power || multiplier == 0) return 1;
  return 1 - multiplier + multiplier * state.watts / sustained_watts(*power);
}

}  // namespace

TEST_CASE("no state of a device does more weighted work in a second than the second costs") {
  std::mt19937 random(71);
  std::size_t further = 0, checked = 0;
  for (int round = 0; round < 30; ++round) {
    const ContentionModel contention(random_contention(random), 1);
    const std::optional<PowerModel> power = random_power(random, round % 2 == 0);
    const PowerDraw matmul{1, power ? power->matmul_watts - power->idle_watts : 0,
                           power ? power->exponent : 0};
    const PowerDraw memory_bound{1, power ? power->lane_watts.at(Lane::Compute) : 0, 0};
    for (const DualBound& bound : lp_dual_bounds(contention, power)) {
      further += bound.is_plain ? 0 : 1;
      const double multiplier = kEnergyMultipliers[bound.multiplier];
      for (LaneSet running = 1; running < kNumLaneSets; ++running) {
        const double others = weight_beside_kernels(bound, contention, running);
        const bool computes = (running & lane_bit(Lane::Compute)) != 0;
        for (const PowerDraw& kernel : {matmul, memory_bound}) {
          const double weight = computes ? bound.weight(kernel) : 0;
          for (const State& state : states_of(running, kernel, power)) {
            const double done = weight * state.speed / contention.slowdown(Lane::Compute, running);
            const double work = (computes ? done : 0) + others;
            const double cost = cost_of(state, multiplier, power);
            ++checked;
            if (work <= cost + kRounding) continue;  // millions, which the macros are too slow for
            CAPTURE(round, running, multiplier, state.watts, work, cost);
            FAIL("more weighted work in a second than the second costs");
          }
        }
      }
    }
  }
  CHECK(further > 50);
  CHECK(checked > 50'000);
}

TEST_CASE("copies that add weigh what they cost, beside copies that do not") {
  // Kernels wait for copies that add, and not for others.
  const ContentionModel contention({{1, {{Lane::Compute, 1}, {Lane::D2H, 1}}},
                                    {1, {{Lane::Compute, 2}, {Lane::D2H, 2}}, /*d2h_adds=*/true}},
                                   1);
  double most = 0, most_plain = 0;
  for (const DualBound& bound : lp_dual_bounds(contention, std::nullopt)) {
    const double kernels = bound.weight({1, 0, 0});
    const double sum =
        10 * kernels + 3 * bound.weights[kAddingCopies] + 2 * bound.weights[lane_index(Lane::D2H)];
    most = std::max(most, sum);
    if (bound.is_plain) most_plain = std::max(most_plain, sum);
  }
  CHECK_THAT(most_plain, WithinRel(10, kRounding * 10));
  CHECK_THAT(most, WithinRel(13, kRounding * 10));
}

TEST_CASE("a fifth lane weighs what three others and kernels leave") {
  // Any of five lanes together are no faster than one by one.
  std::vector<ContentionSample> samples;
  const std::vector<Lane> lanes{Lane::Compute, Lane::Collective, Lane::H2D, Lane::D2H,
                                Lane::CpuAdam};
  for (LaneSet set = 1; set < kD2HAdds; ++set) {
    ContentionSample sample;
    sample.ranks = 1;
    double members = 0;
    LaneSet of_five = 0;
    for (const Lane lane : lanes) {
      if ((set & lane_bit(lane)) == 0) continue;
      of_five |= lane_bit(lane);
      ++members;
    }
    if (of_five != set || members < 2) continue;
    for (const Lane lane : lanes) {
      if ((set & lane_bit(lane)) != 0) sample.slowdown[lane] = members;
    }
    samples.push_back(sample);
  }
  const ContentionModel contention(samples, 1);
  double most = 0, most_plain = 0;
  for (const DualBound& bound : lp_dual_bounds(contention, std::nullopt)) {
    double sum = bound.weight({1, 0, 0});
    for (const Lane lane : lanes) {
      if (lane != Lane::Compute) sum += bound.weights[lane_index(lane)];
    }
    most = std::max(most, sum);
    if (bound.is_plain) most_plain = std::max(most_plain, sum);
  }
  CHECK_THAT(most_plain, WithinRel(4, kRounding * 10));
  CHECK_THAT(most, WithinRel(5, kRounding * 10));
}

}  // namespace athanor
