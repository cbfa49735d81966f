// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/power_draw.hpp"

#include "sim/cost/costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace athanor {
namespace {

const PowerLimit& lowest_limit(const PowerModel& power) {
  return *std::ranges::min_element(power.limits, {}, &PowerLimit::watts);
}

double lane_watts(const PowerModel& power, Lane lane) {
  const auto found = power.lane_watts.find(lane);
  return found == power.lane_watts.end() ? 0 : found->second;
}

PowerDraw phase_draw(const Operation& op, Seconds seconds, const PowerModel& power) {
  if (op.watts <= 0) return {seconds, lane_watts(power, Lane::Compute), 0};
  PowerDraw draw{op.unthrottled_seconds, std::max(0.0, op.watts - power.idle_watts), 0};
  const double sustained = sustained_watts(power);
  const bool slows = draw.watts > sustained && seconds > draw.seconds;
  if (slows && draw.seconds > 0) {
    draw.exponent = std::log(draw.watts / sustained) / std::log(seconds / draw.seconds);
  }
  return draw;
}

/// Returns the least cost of `draw`, where a second costs 1 - share, and its energy at the lowest
/// limit costs the rest. The kernel runs unthrottled, or throttled until it draws a limit whose
/// budget is empty.
Seconds least_cost(const PowerDraw& draw, double share, const PowerModel& power) {
  const double sustained = sustained_watts(power);
  const auto cost = [&](double stretch, double watts) {
    return draw.seconds * stretch * (1 - share + share * watts / sustained);
  };
  Seconds least = cost(1, draw.watts);
  for (const PowerLimit& limit : power.limits) {
    const double watts = limit.watts - power.idle_watts;
    if (watts < draw.watts) least = std::min(least, cost(1 / draw.speed_at(watts), watts));
  }
  return least;
}

}  // namespace

double PowerDraw::speed_at(double watts_above_idle) const noexcept {
  if (exponent <= 0 || watts <= watts_above_idle) return 1;
  return std::pow(std::max(0.0, watts_above_idle) / watts, 1 / exponent);
}

double sustained_watts(const PowerModel& power) noexcept {
  return lowest_limit(power).watts - power.idle_watts;
}

std::vector<PowerDraw> power_draws(const Program& program, const Platform& platform,
                                   const std::vector<Seconds>& seconds) {
  std::vector<PowerDraw> power_draws;
  power_draws.reserve(seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    power_draws.push_back(power_draw(program.operations[i], seconds[i], platform));
  }
  return power_draws;
}

PowerDraw power_draw(const Operation& op, Seconds seconds, const Platform& platform) {
  if (!platform.power) return {seconds, 0, 0};
  if (is_unit_phase(op)) return phase_draw(op, seconds, *platform.power);
  return {seconds, lane_watts(*platform.power, op.lane), 0};
}

void add_kernel(std::vector<PowerDraw>& kernels, const PowerDraw& kernel) {
  const auto found = std::ranges::find_if(kernels, [&](const PowerDraw& other) {
    return other.watts == kernel.watts && other.exponent == kernel.exponent;
  });
  if (found == kernels.end()) {
    kernels.push_back(kernel);
  } else {
    found->seconds += kernel.seconds;
  }
}

LagrangianBound& LagrangianBound::operator+=(const LagrangianBound& other) noexcept {
  std::ranges::transform(at, other.at, at.begin(), std::plus());
  return *this;
}

Seconds LagrangianBound::most() const noexcept { return std::ranges::max(at); }

Seconds consecutive_seconds(std::span<const LagrangianBound> parts, const Platform& platform) {
  using ByPrice = std::array<Seconds, kEnergyMultipliers.size()>;
  const Seconds window = platform.power ? lowest_limit(*platform.power).window : 0;
  const auto carried = [window](std::size_t from, std::size_t to) {
    return window * std::max(0.0, kEnergyMultipliers[to] - kEnergyMultipliers[from]);
  };
  Seconds most = 0;
  for (std::size_t first = 0; first < kEnergyMultipliers.size(); ++first) {
    ByPrice so_far;  // by the multiplier of the last part
    so_far.fill(-std::numeric_limits<Seconds>::infinity());
    so_far[first] = parts.front().at[first];
    for (const LagrangianBound& part : parts.subspan(1)) {
      const ByPrice before = so_far;
      for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
        Seconds longest = before[multiplier];
        for (std::size_t other = 0; other < before.size(); ++other) {
          longest = std::max(longest, before[other] - carried(other, multiplier));
        }
        so_far[multiplier] = longest + part.at[multiplier];
      }
    }
    for (std::size_t last = 0; last < so_far.size(); ++last) {
      most = std::max(most, so_far[last] - carried(last, first));
    }
  }
  return most;
}

LagrangianBound lagrangian_bound(const PowerDraw& kernel, const Platform& platform) {
  LagrangianBound powered;
  powered.at.fill(kernel.seconds);
  if (!platform.power) return powered;
  std::ranges::transform(kEnergyMultipliers, powered.at.begin(),
                         [&](double share) { return least_cost(kernel, share, *platform.power); });
  return powered;
}

}  // namespace athanor
