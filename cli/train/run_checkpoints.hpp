// SPDX-License-Identifier: Apache-2.0
// The checkpoints of one process of a run: made from its trainer, said to its user.
#pragma once

#include "cli/common/progress_line.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/backend/device.hpp"
#include "executor/checkpoint/checkpoint_series.hpp"
#include "executor/checkpoint/staged_state.hpp"
#include "executor/train/trainer.hpp"
#include "executor/watch/job_watch.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace athanor::cli {

/// Every rank has one and makes the same calls between steps.
class RunCheckpoints {
 public:
  /// All of it outlives the object.
  struct Site {
    const TrainArguments& arguments;
    const TrainInputs& inputs;
    Trainer& trainer;
    JobWatch& watch;
    ProgressLine& progress;
    int rank = 0;
    /// State without files after so many steps.
    std::function<CheckpointState(std::int64_t step)> state;
    std::function<void(const std::string& line)> print;  ///< a line that stays
  };
  /// `device`: where the copy of --async-checkpoint gets its memory.
  RunCheckpoints(Site site, Device& device);

  /// Notes the checkpoint that the run goes on from; `step` is -1 where it is another run's.
  void note_newest(std::int64_t step, std::string folder) {
    series_.note_newest(step, std::move(folder));
  }
  /// Writes one of the steps that are done, unless it is there already, and waits for it.
  void write();
  /// Makes one on the way: as --async-checkpoint says, training goes on while it is written.
  void make();
  /// Waits for the one under way where the next step would write over what it is written from.
  void finish_if_due();
  /// Returns the last step before finish_if_due() has to be called.
  [[nodiscard]] std::int64_t last_step_beside() const noexcept {
    return series_.last_step_beside();
  }
  /// Throws what has kept this rank from writing in the background. Returns the times of a
  /// checkpoint that is complete, once, on rank 0. After any step.
  [[nodiscard]] std::optional<CheckpointReport> look();
  /// Folder of the newest that is complete.
  [[nodiscard]] const std::string& newest_folder() const noexcept {
    return series_.newest_folder();
  }

 private:
  void finish(const std::string& way_out);
  void report();

  Site site_;
  std::optional<StagedState> staged_;  ///< for --async-checkpoint copy
  CheckpointSeries series_;            ///< ends before what it reads
  std::optional<CheckpointReport> unwritten_;
  bool has_said_slow_ = false;  ///< that the disk is slower than training
};

}  // namespace athanor::cli
