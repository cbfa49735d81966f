// SPDX-License-Identifier: Apache-2.0
// Finds the period of a repeated program from the ends of its operations, step by step.
#pragma once

#include "sim/model/quantities.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace athanor {

/// A program is steady when every operation ends the same time after its end k steps before; the
/// period is that time over k. k is 1 as a rule, and more where successive steps take turns.
class SteadyState {
 public:
  SteadyState(std::size_t ends_per_step, double tolerance);

  /// Where the ends of `step` are to be written, while at most kOverlap steps are under way.
  [[nodiscard]] std::span<Seconds> ends(int step) noexcept;

  /// Looks at `step`, all ends of which are written; steps come in order from 0.
  /// Returns whether the program is steady.
  [[nodiscard]] bool add(int step);

  /// The period, or, when the program has not become steady, the mean over the last kLongestCycle
  /// steps of the operation that falls behind most: in the end it holds up all the others.
  [[nodiscard]] Seconds period();

 private:
  [[nodiscard]] bool repeats(int step, int cycle);

  static constexpr int kLongestCycle = 4;
  static constexpr int kOverlap = 2;
  static constexpr int kKept = kLongestCycle + kOverlap;
  std::size_t width_;
  double tolerance_;
  std::vector<Seconds> ends_;
  int steps_ = 0;
  Seconds period_ = 0;
  bool steady_ = false;
};

}  // namespace athanor
