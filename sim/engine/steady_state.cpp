// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/steady_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace athanor {
namespace {

constexpr Seconds kNotYet = std::numeric_limits<Seconds>::infinity();

/// Two ends of steps, and how far what repeats may be from repeating.
struct Comparison {
  Seconds before = 0, shift = 0, allowed = 0;

  [[nodiscard]] bool is_same(Seconds now, Seconds then) const {
    return std::abs(now - then - shift) <= allowed;
  }
  /// The same for what may not have come yet by the end of its step.
  [[nodiscard]] bool is_same_so_far(Seconds now, Seconds then) const {
    return now == kNotYet ? then >= before - allowed : is_same(now, then);
  }
};

}  // namespace

SteadyState::SteadyState(std::size_t operations_per_step, double tolerance)
    : width_(operations_per_step),
      tolerance_(tolerance),
      starts_(kKept * width_, kNotYet),
      ends_(kKept * width_, kNotYet) {}

void SteadyState::open(int step) noexcept {
  std::ranges::fill(starts(step), kNotYet);
  std::ranges::fill(ends(step), kNotYet);
}

std::span<Seconds> SteadyState::starts(int step) noexcept {
  return {starts_.data() + static_cast<std::size_t>(step % kKept) * width_, width_};
}

std::span<Seconds> SteadyState::ends(int step) noexcept {
  return {ends_.data() + static_cast<std::size_t>(step % kKept) * width_, width_};
}

bool SteadyState::add(int step, Seconds issued_until, std::vector<double> budgets) {
  steps_ = step + 1;
  closed_[static_cast<std::size_t>(step % kKept)] = *std::ranges::max_element(ends(step));
  issued_until_[static_cast<std::size_t>(step % kKept)] = issued_until;
  budgets_[static_cast<std::size_t>(step % kKept)] = std::move(budgets);
  // The first two steps run without the limit on steps under way and cannot tell.
  for (int cycle = 1; cycle <= kLongestCycle && step >= 2 * cycle && !steady_; ++cycle) {
    steady_ = repeats(step, cycle);
  }
  return steady_;
}

bool SteadyState::repeats(int step, int cycle) {
  const auto now = static_cast<std::size_t>(step % kKept);
  const auto then = static_cast<std::size_t>((step - cycle) % kKept);
  const Seconds shift = closed_[now] - closed_[then];
  const Comparison compare{closed_[then], shift, tolerance_ * shift};
  const bool issued_alike = issued_until_[now] <= closed_[now]
                                ? issued_until_[then] <= closed_[then] + compare.allowed
                                : compare.is_same(issued_until_[now], issued_until_[then]);
  if (!issued_alike || !has_same_budgets(step, cycle)) return false;
  for (std::size_t i = 0; i < width_; ++i) {
    if (!compare.is_same(ends(step)[i], ends(step - cycle)[i])) return false;
  }
  for (std::size_t i = 0; i < width_; ++i) {
    if (!compare.is_same_so_far(starts(step + 1)[i], starts(step + 1 - cycle)[i]) ||
        !compare.is_same_so_far(ends(step + 1)[i], ends(step + 1 - cycle)[i])) {
      return false;
    }
  }
  period_ = shift / cycle;
  cycle_ = cycle;
  return true;
}

bool SteadyState::has_same_budgets(int step, int cycle) const {
  constexpr double kSame = 1e-6;  // of a budget
  return std::ranges::equal(budgets_[static_cast<std::size_t>(step % kKept)],
                            budgets_[static_cast<std::size_t>((step - cycle) % kKept)],
                            [](double a, double b) { return std::abs(a - b) <= kSame; });
}

int SteadyState::period_steps() const noexcept {
  return steady_ ? cycle_ : std::clamp(steps_ - 1, std::min(steps_, 1), kLongestCycle);
}

Seconds SteadyState::period() {
  if (steady_ || steps_ == 0 || width_ == 0) return period_;
  const std::span<const Seconds> last = ends(steps_ - 1);
  if (steps_ == 1) return *std::ranges::max_element(last);
  const int window = period_steps();
  const std::span<const Seconds> first = ends(steps_ - 1 - window);
  Seconds longest = 0;
  for (std::size_t i = 0; i < width_; ++i) longest = std::max(longest, last[i] - first[i]);
  return longest / window;
}

}  // namespace athanor
