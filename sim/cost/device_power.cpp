// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/device_power.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace athanor {
namespace {

/// Share of an idle device's budget below which a budget counts as empty: rounding leaves as much.
constexpr double kEmpty = 1e-9;

}  // namespace

DevicePower::DevicePower(const PowerModel& model)
    : idle_watts_(model.idle_watts),
      levels_(model.limits.size()),
      times_empty_(model.limits.size()) {
  for (const PowerLimit& limit : model.limits) {
    watts_above_idle_.push_back(limit.watts - model.idle_watts);
    windows_.push_back(limit.window);
  }
}

void DevicePower::reset() noexcept {
  std::ranges::fill(levels_, 0);
  std::ranges::fill(times_empty_, 0);
  power_draws_ = {};
  joules_ = 0;
  passed_ = 0;
  history_.clear();
  settle();
}

void DevicePower::start(Lane lane, const PowerDraw& draw) noexcept {
  power_draws_[lane_index(lane)] = draw;
  settle();
}

void DevicePower::stop(Lane lane) noexcept {
  power_draws_[lane_index(lane)] = {};
  settle();
}

void DevicePower::pass(Seconds time) {
  if (keeps_history_ && (history_.empty() || history_.back().watts != watts())) {
    history_.push_back({passed_, watts()});
  }
  passed_ += time;
  joules_ += time * watts();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i] <= 0) ++times_empty_[i];
    if (windows_[i] <= 0) continue;
    const double steady = 1 - drawn_ / watts_above_idle_[i];
    if (levels_[i] <= 0 && steady <= 0) continue;  // stays empty
    const double level = levels_[i] - (steady - levels_[i]) * std::expm1(-time / windows_[i]);
    levels_[i] = level < kEmpty ? 0 : level;
  }
  settle();
}

void DevicePower::settle() noexcept {
  double allowed = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i] <= 0) allowed = std::min(allowed, watts_above_idle_[i]);
  }
  const PowerDraw& kernel = power_draws_[lane_index(Lane::Compute)];
  if (allowed != allowed_ || kernel.watts != kernel_.watts || kernel.exponent != kernel_.exponent) {
    speed_ = kernel.speed_at(allowed);
    allowed_ = allowed;
    kernel_ = kernel;
  }
  drawn_ = 0;
  for (const PowerDraw& draw : power_draws_) drawn_ += draw.watts;
  drawn_ = std::min(drawn_, allowed);
}

Seconds DevicePower::until_change() const noexcept {
  Seconds least = std::numeric_limits<Seconds>::infinity();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const double over = drawn_ / watts_above_idle_[i] - 1;
    if (levels_[i] > 0 && over > 0) {
      least = std::min(least, windows_[i] * std::log1p(levels_[i] / over));
    }
  }
  return least;
}

}  // namespace athanor
