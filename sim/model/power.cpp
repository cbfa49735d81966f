// SPDX-License-Identifier: Apache-2.0
#include "sim/model/power.hpp"

#include "sim/model/costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace athanor {
namespace {

double lane_watts(const PowerModel& power, Lane lane) {
  const auto found = power.lane_watts.find(lane);
  return found == power.lane_watts.end() ? 0 : found->second;
}

Draw phase_draw(const Operation& op, const PowerModel& power) {
  if (op.watts <= 0) return {op.compute_seconds, lane_watts(power, Lane::Compute), 0};
  Draw draw{op.full_clock_seconds, std::max(0.0, op.watts - power.idle_watts), 0};
  const double sustained = sustained_watts(power);
  const bool slows = draw.watts > sustained && op.compute_seconds > draw.seconds;
  if (slows && draw.seconds > 0) {
    draw.exponent = std::log(draw.watts / sustained) / std::log(op.compute_seconds / draw.seconds);
  }
  return draw;
}

/// The least of weight * x + (1 - weight) * energy(x) / sustained over durations x from full speed
/// on, where energy(x) is what the phase draws above idle.
Seconds least_cost(const Draw& draw, double weight, double sustained) {
  const double ratio = draw.watts / sustained;
  if (draw.exponent <= 1) {  // slowing down saves nothing, or is not what happens
    return draw.seconds * (weight + (1 - weight) * std::min(ratio, 1.0));
  }
  const double stretch = std::max(
      1.0, std::pow((1 - weight) / weight * (draw.exponent - 1) * ratio, 1 / draw.exponent));
  const double energy = ratio * std::pow(stretch, 1 - draw.exponent);
  return draw.seconds * (weight * stretch + (1 - weight) * energy);
}

}  // namespace

double Draw::speed_at(double watts_above_idle) const noexcept {
  if (exponent <= 0 || watts <= watts_above_idle) return 1;
  return std::pow(std::max(0.0, watts_above_idle) / watts, 1 / exponent);
}

double sustained_watts(const PowerModel& power) noexcept {
  const auto lowest =
      std::min_element(power.limits.begin(), power.limits.end(),
                       [](const PowerLimit& a, const PowerLimit& b) { return a.watts < b.watts; });
  return lowest->watts - power.idle_watts;
}

std::vector<Draw> draws(const Program& program, const Platform& platform,
                        const std::vector<Seconds>& seconds) {
  std::vector<Draw> draws;
  draws.reserve(seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Operation& op = program.operations[i];
    if (!platform.power) {
      draws.push_back({seconds[i], 0, 0});
    } else if (is_unit_phase(op)) {
      draws.push_back(phase_draw(op, *platform.power));
    } else {
      draws.push_back({seconds[i], lane_watts(*platform.power, op.lane), 0});
    }
  }
  return draws;
}

PoweredSeconds powered_seconds(const Operation& op, const Platform& platform) {
  if (!is_unit_phase(op)) return {};
  if (!platform.power || op.watts <= 0) return {op.compute_seconds, op.compute_seconds};
  const PowerModel& power = *platform.power;
  const Draw draw = phase_draw(op, power);
  if (power.exponent <= 1) return {draw.seconds, draw.seconds};
  // At this weight a matrix product costs the time that it takes at the lowest limit.
  const double weight = (power.exponent - 1) / power.exponent;
  return {draw.seconds, least_cost(draw, weight, sustained_watts(power))};
}

}  // namespace athanor
