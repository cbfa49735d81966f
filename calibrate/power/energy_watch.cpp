// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power/energy_watch.hpp"

#include "sim/base/errors.hpp"

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

constexpr Seconds kBetweenReads = 1e-3;

}  // namespace

void EnergyChanges::note(Moment moment, double joules) {
  if (changes_.empty() || changes_.back().joules != joules) changes_.push_back({moment, joules});
}

bool EnergyChanges::any_after(Moment moment) const noexcept {
  return changes_.size() > 1 && changes_.back().moment > moment;
}

double EnergyChanges::joules(Moment from, Moment to) const { return at(to) - at(from); }

double EnergyChanges::at(Moment moment) const {
  const auto after = std::ranges::upper_bound(changes_, moment, {}, &Change::moment);
  // The first reading is no change: the counter may have had that value for long.
  if (after == changes_.end() || after - changes_.begin() < 2) {
    throw Error("the energy counter did not change before and after what was measured");
  }
  const Change& before = *std::prev(after);
  const double share =
      seconds_between(before.moment, moment) / seconds_between(before.moment, after->moment);
  return before.joules + share * (after->joules - before.joules);
}

EnergyWatch::EnergyWatch(std::function<std::optional<double>()> counter)
    : counter_(std::move(counter)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

bool EnergyWatch::has_changed_since(Moment moment) const {
  const std::scoped_lock lock(mutex_);
  return changes_.any_after(moment) || seconds_between(moment, Moment::clock::now()) > kPatience;
}

void EnergyWatch::until_change(const std::function<void()>& activity) const {
  const Moment since = Moment::clock::now();
  while (!has_changed_since(since)) activity();
}

double EnergyWatch::joules(Moment from, Moment to) const {
  const std::scoped_lock lock(mutex_);
  return changes_.joules(from, to);
}

double EnergyWatch::watts(Moment from, Moment to) const {
  return joules(from, to) / seconds_between(from, to);
}

void EnergyWatch::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::optional<double> joules = counter_();
    if (!joules) return;
    {
      const std::scoped_lock lock(mutex_);
      changes_.note(Moment::clock::now(), *joules);
    }
    sleep_for(kBetweenReads);
  }
}

}  // namespace athanor
