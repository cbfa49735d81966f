// SPDX-License-Identifier: Apache-2.0
// Finds the period of a repeated program from the starts and ends of its operations, step by step.
#pragma once

#include "sim/model/quantities.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace athanor {

/// A program is steady when a step ends as the step k before did, with all of its operations and
/// with what the step after has done by then: what follows is then the same, k steps later. The
/// period is the time between the two over k. k is 1 as a rule, and more where successive steps
/// take turns.
class SteadyState {
 public:
  SteadyState(std::size_t operations_per_step, double tolerance);

  /// Forgets what stood in the place of `step`, while at most kOverlap steps are under way.
  void open(int step) noexcept;
  /// Where the starts and ends of the operations of `step` are to be written.
  [[nodiscard]] std::span<Seconds> starts(int step) noexcept;
  [[nodiscard]] std::span<Seconds> ends(int step) noexcept;

  /// Looks at `step`, which has just ended; steps come in order from 0. `issued_until`: when the
  /// host has issued the step after. `budgets`: shares that are left of what the devices may take
  /// above their power limits. Returns whether the program is steady.
  [[nodiscard]] bool add(int step, Seconds issued_until, std::vector<double> budgets = {});

  /// The period, or, when the program has not become steady, the mean over the last kLongestCycle
  /// steps of the operation that falls behind most: in the end it holds up all the others.
  [[nodiscard]] Seconds period();
  /// Steps, the last ones, of which the period is the mean.
  [[nodiscard]] int period_steps() const noexcept;

 private:
  [[nodiscard]] bool repeats(int step, int cycle);
  [[nodiscard]] bool has_same_budgets(int step, int cycle) const;

  static constexpr int kLongestCycle = 4;
  static constexpr int kOverlap = 2;
  static constexpr int kKept = kLongestCycle + kOverlap;
  std::size_t width_;
  double tolerance_;
  std::vector<Seconds> starts_, ends_;
  std::array<Seconds, kKept> closed_{}, issued_until_{};  ///< by step
  std::array<std::vector<double>, kKept> budgets_;        ///< the same
  int steps_ = 0, cycle_ = 0;
  Seconds period_ = 0;
  bool steady_ = false;
};

}  // namespace athanor
