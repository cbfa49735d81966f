// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/steady_state.hpp"

#include <algorithm>

namespace athanor {

SteadyState::SteadyState(std::size_t ends_per_step, double tolerance)
    : width_(ends_per_step), tolerance_(tolerance), ends_(kKept * ends_per_step) {}

std::span<Seconds> SteadyState::ends(int step) noexcept {
  return {ends_.data() + static_cast<std::size_t>(step % kKept) * width_, width_};
}

bool SteadyState::add(int step) {
  const std::span<const Seconds> now = ends(step);
  step_ends_.push_back(now.empty() ? 0 : *std::max_element(now.begin(), now.end()));
  // The first two steps run without the limit on steps under way and cannot tell.
  for (int cycle = 1; cycle <= kLongestCycle && step >= 2 * cycle && !steady_; ++cycle) {
    steady_ = repeats(step, cycle);
  }
  return steady_;
}

bool SteadyState::repeats(int step, int cycle) {
  const std::span<const Seconds> now = ends(step);
  const std::span<const Seconds> before = ends(step - cycle);
  const Seconds shift = step_ends_[static_cast<std::size_t>(step)] -
                        step_ends_[static_cast<std::size_t>(step - cycle)];
  const Seconds allowed = tolerance_ * shift;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const Seconds deviation = now[i] - before[i] - shift;
    if (deviation > allowed || deviation < -allowed) return false;
  }
  period_ = shift / cycle;
  return true;
}

Seconds SteadyState::period() const noexcept {
  if (steady_) return period_;
  if (step_ends_.empty()) return 0;
  const std::size_t last = step_ends_.size() - 1;
  if (last == 0) return step_ends_.front();
  const std::size_t from = last / 2;
  return (step_ends_[last] - step_ends_[from]) / static_cast<double>(last - from);
}

}  // namespace athanor
