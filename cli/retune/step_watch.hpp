// SPDX-License-Identifier: Apache-2.0
// Decides when a run's rates are measured again: where steps take longer or less long than they
// should, and not too often.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <deque>

namespace athanor::cli {

/// Steps whose median counts. Where it departs, most of them do, and so the latest half of them:
/// these are what the timeline still holds.
inline constexpr std::size_t kWatchedSteps = 9;

/// How often a run searches for a plan, over all plans that it has had. Between the end of a search
/// and the next measurement are 16 steps, then 32, 64, .. up to 1024, and at least ten times the
/// seconds that the search took.
class SearchPace {
 public:
  void note_start(Seconds now) { started_at_ = now; }
  void note_end(std::int64_t step, Seconds now);
  [[nodiscard]] bool allows(std::int64_t step, Seconds now) const noexcept {
    return step >= next_step_ && now >= next_time_;
  }

 private:
  std::int64_t pause_ = 16, next_step_ = 0;
  Seconds started_at_ = 0, next_time_ = 0;
};

class StepWatch {
 public:
  /// `margin`: share by which the median has to depart.
  explicit StepWatch(double margin) : margin_(margin) {}

  /// From now on steps should take so long; 0: nothing is known.
  void expect(Seconds seconds) noexcept { expected_ = seconds; }
  /// Steps should take as long as they do: a search has shown that no plan makes more of it.
  void accept() noexcept { expected_ = median(); }
  void note(Seconds seconds);
  /// Forgets the steps so far.
  void clear() noexcept { steps_.clear(); }
  /// Returns the median of the latest steps; 0 until there are enough of them.
  [[nodiscard]] Seconds median() const;
  [[nodiscard]] bool departs() const;

 private:
  double margin_;
  Seconds expected_ = 0;
  std::deque<Seconds> steps_;
};

}  // namespace athanor::cli
