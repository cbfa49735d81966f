// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/steady_state.hpp"

#include "sim/base/quantities.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace athanor {
namespace {

constexpr double kSameBudget = 1e-6;  // difference of budgets that counts as none

bool are_same(const std::vector<double>& now, const std::vector<double>& then, double allowed) {
  return std::ranges::equal(now, then,
                            [allowed](double a, double b) { return std::abs(a - b) <= allowed; });
}

bool issue_repeats(const StepEnd& now, const StepEnd& then, Seconds allowed) {
  const Seconds later = now.issued_until - then.issued_until;
  return later <= allowed && (later >= -allowed || now.issue_waits == then.issue_waits);
}

bool budget_repeats(const StepEnd::Budget& now, const StepEnd::Budget& then) {
  const double gain = now.level - then.level;
  return gain >= -kSameBudget && (gain <= kSameBudget || now.times_empty == then.times_empty);
}

}  // namespace

SteadyState::SteadyState(std::size_t num_lanes, double tolerance, int different_steps)
    : tolerance_(tolerance),
      different_steps_(different_steps),
      longest_cycle_(static_cast<int>(round_up(kLongestCycle, different_steps))),
      lane_ends_(num_lanes) {}

void SteadyState::lane_ended(std::size_t lane, Seconds time) { lane_ends_[lane].push_back(time); }

bool SteadyState::add(StepEnd end) {
  const auto found = std::find_if(ends_.rbegin(), ends_.rend(), [&](const StepEnd& then) {
    const int apart = end.step - then.step;
    return apart <= longest_cycle_ && apart % different_steps_ == 0 && repeats(end, then);
  });
  if (found != ends_.rend()) {
    const int cycle = end.step - found->step;
    steady_ = {found->step, end.step, (end.time - found->time) / cycle};
    return true;
  }
  ends_.push_back(std::move(end));
  return false;
}

bool SteadyState::repeats(const StepEnd& now, const StepEnd& then) const {
  const Seconds allowed = tolerance_ * (now.time - then.time);
  return now.places == then.places && are_same(now.until, then.until, allowed) &&
         issue_repeats(now, then, allowed) &&
         std::ranges::equal(now.budgets, then.budgets, budget_repeats);
}

SteadyState::Period SteadyState::period() const {
  if (steady_.last >= 0) return steady_;
  std::size_t steps = std::numeric_limits<std::size_t>::max();
  for (const std::vector<Seconds>& ends : lane_ends_) {
    if (!ends.empty()) steps = std::min(steps, ends.size());
  }
  if (steps == std::numeric_limits<std::size_t>::max()) return {};
  const int last = static_cast<int>(steps) - 1;
  const int first = std::max(last - longest_cycle_, last == 0 ? -1 : 0);
  Seconds longest = 0;
  for (const std::vector<Seconds>& ends : lane_ends_) {
    if (ends.empty()) continue;
    const Seconds before = first < 0 ? 0 : ends[static_cast<std::size_t>(first)];
    longest = std::max(longest, ends[static_cast<std::size_t>(last)] - before);
  }
  return {first, last, longest / (last - first)};
}

}  // namespace athanor
