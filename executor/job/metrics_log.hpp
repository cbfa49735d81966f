// SPDX-License-Identifier: Apache-2.0
// Writes metrics.jsonl: one object per step, under the names that torchtitan uses. The same numbers
// go to TensorBoard where that is wanted.
#pragma once

#include "executor/job/line_log.hpp"
#include "executor/job/step_report.hpp"
#include "executor/job/tensorboard_log.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

class MetricsLog {
 public:
  struct Context {
    std::int64_t tokens_per_step = 0;    ///< over all ranks
    int world_size = 1;                  ///< throughput is per device, as in torchtitan
    Seconds predicted_step_seconds = 0;  ///< 0 = unknown
    std::string tensorboard;             ///< folder for event files beside it; empty: none
  };

  /// Appends to `path` after dropping the records behind step `resumed_step` and a torn last line.
  /// Throws Error when the file cannot be written.
  MetricsLog(std::string path, std::int64_t resumed_step, Context context);

  /// Last step of the records that were there; 0: none.
  [[nodiscard]] std::int64_t last_step() const noexcept { return last_step_; }

  /// From now on records hold the second prediction, too.
  void set_repredicted(Seconds step_seconds) noexcept { repredicted_ = step_seconds; }

  /// Appends one record; other processes see it when this returns. Returns a remark for the user
  /// where the file was removed or replaced (LineLog), else nothing. Throws Error on a full disk.
  [[nodiscard]] std::string write(const StepReport& report);

 private:
  std::string path_;
  std::int64_t last_step_ = 0;
  Context context_;
  Seconds repredicted_ = 0;  ///< 0: there is none
  std::optional<LineLog> file_;
  std::optional<TensorboardLog> tensorboard_;
};

}  // namespace athanor
