// SPDX-License-Identifier: Apache-2.0
// The measured timeline: start and end of every operation over a window of the latest steps.
#pragma once

#include "executor/backend/collectives.hpp"
#include "sim/model/timeline.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// Records operations. Those of different lanes may record at the same time. A step may be read
/// from when all its operations are done until kWindow steps later.
class TimelineRecorder {
 public:
  static constexpr std::int64_t kWindow = 5;

  /// Takes the present moment as the origin of times. Ranks should construct it together, right
  /// after a barrier.
  explicit TimelineRecorder(const Program& program);

  /// Notes when the operation ran, in times of steady_seconds().
  void record(std::int32_t operation, std::int64_t step, Seconds start, Seconds end);
  /// Notes when the host issued the operation, in times of steady_seconds().
  void record_issue(std::int32_t operation, std::int64_t step, Seconds start, Seconds end);
  [[nodiscard]] Seconds step_start(std::int64_t step) const;  ///< since the origin
  [[nodiscard]] Seconds step_end(std::int64_t step) const;

  /// Notes that `step`, which follows the one noted before, is complete. `continuous` says that
  /// nothing but the program ran in between, so that the time between the two ends is a period.
  void finish_step(std::int64_t step, bool continuous);

  /// Returns the intervals of the latest steps of every rank, and this rank's median period. A
  /// collective call: every rank takes part.
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
  std::vector<Span> spans_;  ///< [step % kWindow][operation], flat
  std::vector<Seconds> periods_;
  std::int64_t finished_steps_ = 0;
  std::int64_t last_step_ = -1;
  Seconds last_end_ = 0;
};

}  // namespace athanor
