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
  steps_ = step + 1;
  // The first two steps run without the limit on steps under way and cannot tell.
  for (int cycle = 1; cycle <= kLongestCycle && step >= 2 * cycle && !steady_; ++cycle) {
    steady_ = repeats(step, cycle);
  }
  return steady_;
}

bool SteadyState::repeats(int step, int cycle) {
  const std::span<const Seconds> now = ends(step);
  const std::span<const Seconds> before = ends(step - cycle);
  const Seconds shift = now.back() - before.back();
  const Seconds allowed = tolerance_ * shift;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const Seconds deviation = now[i] - before[i] - shift;
    if (deviation > allowed || deviation < -allowed) return false;
  }
  period_ = shift / cycle;
  return true;
}

Seconds SteadyState::period() {
  if (steady_ || steps_ == 0 || width_ == 0) return period_;
  const std::span<const Seconds> last = ends(steps_ - 1);
  if (steps_ == 1) return *std::max_element(last.begin(), last.end());
  const int window = std::min(kLongestCycle, steps_ - 1);
  const std::span<const Seconds> first = ends(steps_ - 1 - window);
  Seconds longest = 0;
  for (std::size_t i = 0; i < width_; ++i) longest = std::max(longest, last[i] - first[i]);
  return longest / window;
}

}  // namespace athanor
