// SPDX-License-Identifier: Apache-2.0
// Finds the period of a repeated program from the states in which its steps end.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor {

/// State on which the rest of a replay depends when a step has just ended. Times count from that
/// end.
struct StepEnd {
  int step = 0;
  Seconds time = 0;                  ///< since the replay began
  std::vector<std::int64_t> places;  ///< how far each lane is beyond the step, and if it is busy
  std::vector<Seconds> until;        ///< lane by lane what runs would last if it ran alone
  Seconds issued_until = 0;          ///< when the host has issued the step after; at least 0
  std::int64_t issue_waits = 0;      ///< operations that have waited for their issue so far
  struct Budget {
    double level = 0;              ///< share left of a power limit, by the mean of what was drawn
    std::int64_t times_empty = 0;  ///< changes at which it was empty so far
  };
  std::vector<Budget> budgets;
};

/// A program is steady when a step ends in the state in which the step k before did: everything
/// after it is then the same, k steps later. Two differences are ignored because they cannot
/// matter: a host queue that is no later and was never waited for, and a power budget that is no
/// lower and was never empty. The period is the time between the two steps over k. k is 1 as a
/// rule, and more if successive steps alternate.
class SteadyState {
 public:
  /// `tolerance`: share of the period by which times may differ and still count as equal.
  /// `different_steps`: steps after which the program itself repeats; k is a multiple of it.
  SteadyState(std::size_t num_lanes, double tolerance, int different_steps = 1);

  /// Notes that the last operation of a step on the lane has ended; its steps come in order from 0.
  void lane_ended(std::size_t lane, Seconds time);
  /// Steps come in order; some may be left out. Returns whether the program is steady.
  [[nodiscard]] bool add(StepEnd end);

  /// Mean over the steps after `first`, `last` included.
  struct Period {
    int first = -1, last = -1;
    Seconds seconds = 0;
  };
  /// Returns the period of the steps that repeat. If none has, returns the mean over the last
  /// longest_cycle_ steps of the lane that falls behind most, because in the end it holds up all
  /// the others.
  [[nodiscard]] Period period() const;

 private:
  [[nodiscard]] bool repeats(const StepEnd& now, const StepEnd& then) const;

  static constexpr int kLongestCycle = 4;  ///< steps, of a program that repeats in each
  double tolerance_;
  int different_steps_, longest_cycle_;
  std::vector<std::vector<Seconds>> lane_ends_;  ///< by lane and step
  std::vector<StepEnd> ends_;
  Period steady_;
};

}  // namespace athanor
