// SPDX-License-Identifier: Apache-2.0
#include "cli/retune/step_watch.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor::cli {

void SearchPace::note_end(std::int64_t step, Seconds now) {
  constexpr std::int64_t kLongest = 1024;
  constexpr double kTimesAsLong = 10;
  next_step_ = step + pause_;
  next_time_ = now + kTimesAsLong * (now - started_at_);
  pause_ = std::min(2 * pause_, kLongest);
}

void StepWatch::note(Seconds seconds) {
  steps_.push_back(seconds);
  if (steps_.size() > kWatchedSteps) steps_.pop_front();
}

Seconds StepWatch::median() const {
  if (steps_.size() < kWatchedSteps) return 0;
  std::vector<Seconds> sorted(steps_.begin(), steps_.end());
  std::ranges::nth_element(sorted, sorted.begin() + kWatchedSteps / 2);
  return sorted[kWatchedSteps / 2];
}

bool StepWatch::departs() const {
  const Seconds now = median();
  return now > 0 && expected_ > 0 && std::abs(now / expected_ - 1) > margin_;
}

}  // namespace athanor::cli
