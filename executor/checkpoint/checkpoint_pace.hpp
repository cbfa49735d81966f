// SPDX-License-Identifier: Apache-2.0
// Decides when checkpoints are written: every so many steps, or as time passes.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <string>

namespace athanor {

/// The value of --checkpoint-every. At most one of the two is above 0; neither: no checkpoints.
struct CheckpointInterval {
  std::int64_t steps = 0;
  Seconds seconds = 0;
  [[nodiscard]] bool is_on() const noexcept { return steps > 0 || seconds > 0; }
};

/// Parses a number of steps such as 500, or a time such as 600s, 10m or 1h. Throws InputError.
[[nodiscard]] CheckpointInterval parse_checkpoint_interval(const std::string& text);

/// Chooses the steps after which a run looks at the clock, so that steps in between follow each
/// other without a pause. Every number of seconds is of one steady clock.
class CheckpointPace {
 public:
  /// `predicted_step`: 0 where there is no prediction.
  CheckpointPace(CheckpointInterval interval, Seconds predicted_step, std::int64_t steps_done,
                 Seconds now);
  /// Returns the step at which to stop next, at most `last`.
  [[nodiscard]] std::int64_t next_stop(std::int64_t steps_done, std::int64_t last, Seconds now);
  /// Whether a checkpoint is due.
  [[nodiscard]] bool is_due(std::int64_t steps_done, Seconds now) const;
  void note_checkpoint(Seconds now) { last_checkpoint_ = now; }

 private:
  [[nodiscard]] std::int64_t steps_ahead(std::int64_t steps_done, Seconds now) const;

  CheckpointInterval interval_;
  Seconds step_seconds_;
  bool measured_ = false;
  std::int64_t stopped_at_;
  Seconds stopped_time_, last_checkpoint_;
};

}  // namespace athanor
