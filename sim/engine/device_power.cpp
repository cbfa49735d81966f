// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/device_power.hpp"

#include <algorithm>
#include <limits>

namespace athanor {
namespace {

/// Of a full budget: less is what rounding leaves of an empty one.
constexpr double kEmpty = 1e-9;

}  // namespace

DevicePower::DevicePower(const PowerModel& model)
    : idle_watts_(model.idle_watts), levels_(model.limits.size()) {
  for (const PowerLimit& limit : model.limits) {
    watts_above_idle_.push_back(limit.watts - model.idle_watts);
    burst_joules_.push_back(limit.burst_joules);
  }
}

void DevicePower::reset() noexcept {
  std::ranges::fill(levels_, 0);
  draws_ = {};
  joules_ = 0;
  settle();
}

void DevicePower::start(Lane lane, const Draw& draw) noexcept {
  draws_[static_cast<std::size_t>(lane)] = draw;
  settle();
}

void DevicePower::stop(Lane lane) noexcept {
  draws_[static_cast<std::size_t>(lane)] = {};
  settle();
}

double DevicePower::gain(std::size_t limit) const noexcept {
  return watts_above_idle_[limit] - drawn_;
}

void DevicePower::pass(Seconds time) noexcept {
  joules_ += time * watts();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (burst_joules_[i] <= 0) continue;
    const double level = levels_[i] + time * gain(i) / burst_joules_[i];
    levels_[i] = level < kEmpty ? 0 : std::min(level, 1.0);
  }
  settle();
}

void DevicePower::settle() noexcept {
  const Draw& kernel = draws_[static_cast<std::size_t>(Lane::Compute)];
  speed_ = 1;
  double kernel_watts = kernel.watts;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i] > 0) continue;
    const double speed = kernel.speed_at(watts_above_idle_[i]);
    if (speed >= speed_) continue;
    speed_ = speed;
    kernel_watts = watts_above_idle_[i];
  }
  drawn_ = kernel_watts;
  for (const Lane lane : kLanes) {
    if (lane != Lane::Compute) drawn_ += draws_[static_cast<std::size_t>(lane)].watts;
  }
}

Seconds DevicePower::until_change() const noexcept {
  Seconds least = std::numeric_limits<Seconds>::infinity();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i] > 0 && gain(i) < 0) {
      least = std::min(least, levels_[i] * burst_joules_[i] / -gain(i));
    }
  }
  return least;
}

}  // namespace athanor
