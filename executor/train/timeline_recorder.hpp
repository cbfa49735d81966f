// SPDX-License-Identifier: Apache-2.0
// The measured timeline: when every operation ran, over a window of the latest steps.
#pragma once

#include "executor/backend/collectives.hpp"
#include "sim/model/timeline.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// Operations of different lanes may record at the same time; reading a step is allowed once all
/// its operations are done, until kWindow steps later.
class TimelineRecorder {
 public:
  static constexpr std::int64_t kWindow = 5;

  /// Ranks should construct it together, right after a barrier: that moment is the origin.
  explicit TimelineRecorder(const Program& program);

  /// Times are those of steady_seconds().
  void record(std::int32_t operation, std::int64_t step, Seconds start, Seconds end);
  void record_issue(std::int32_t operation, std::int64_t step, Seconds start, Seconds end);
  [[nodiscard]] Seconds step_start(std::int64_t step) const;  ///< since the origin
  [[nodiscard]] Seconds step_end(std::int64_t step) const;

  /// Notes that `step`, which follows the one noted before, is complete. `continuous`: nothing but
  /// the program ran since then, so that the time between the two ends is a step's period.
  void finish_step(std::int64_t step, bool continuous);

  /// Intervals of the latest steps of every rank, and the median period of the steps of this rank.
  /// A collective call: every rank takes part.
  [[nodiscard]] Timeline collect(Collectives& collectives) const;

 private:
  struct Span {
    Seconds start = 0, end = 0;
    Seconds issue_start = 0, issue_end = 0;
  };
  [[nodiscard]] Span& span(std::int32_t operation, std::int64_t step);
  [[nodiscard]] const Span* spans(std::int64_t step) const;
  [[nodiscard]] Seconds median_period() const;

  std::size_t operations_;
  Seconds origin_;
  std::vector<Span> spans_;  // [step % kWindow][operation]
  std::vector<Seconds> periods_;
  std::int64_t finished_steps_ = 0;
  std::int64_t last_step_ = -1;
  Seconds last_end_ = 0;
};

}  // namespace athanor
