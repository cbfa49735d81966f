// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run, one after the other: while training stops, or beside it.
#pragma once

#include "executor/checkpoint/background_checkpoint.hpp"
#include "executor/checkpoint/checkpoint_writer.hpp"
#include "executor/job/step_report.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Memory that a checkpoint is written from.
enum class CheckpointSource {
  State,    ///< the state itself: training stops until the checkpoint is complete
  Copy,     ///< a copy on the host: training stops until the state is copied
  Version,  ///< the version of the state that the next step leaves whole: the one after it waits
};

/// Every rank has one and makes the same calls between steps, but for look() and take_report().
class CheckpointSeries {
 public:
  struct Site {
    std::string folder;  ///< RUN/checkpoints
    const Architecture* architecture = nullptr;
    int rank = 0;
    int keep_last = 1;
    ExchangeValues exchange;
  };
  explicit CheckpointSeries(Site site) : site_(std::move(site)) {}

  /// Notes the checkpoint that the run goes on from.
  void note_newest(std::int64_t step, std::string folder);

  /// Writes a checkpoint while training stops, unless that of this step is there or under way.
  /// Returns when it is complete.
  void write(const CheckpointState& state, const std::vector<StateRange>& ranges);
  /// Writes one beside training. `take`, which is called once the one before is complete, returns
  /// ranges that stay the same: of a copy, or of a version.
  void start(const CheckpointState& state, CheckpointSource source,
             const std::function<std::vector<StateRange>()>& take);
  /// Waits until the checkpoint that is under way, if there is one, is complete on all ranks.
  /// Returns how long this rank has waited; 0 where it was complete.
  Seconds finish();
  /// Returns the last step that may be trained before finish() is called.
  [[nodiscard]] std::int64_t last_step_beside() const noexcept;

  /// Throws what has kept this rank's thread from writing, as write() would. After any step.
  void look();
  /// Returns the times of a checkpoint that is complete, once, on rank 0.
  [[nodiscard]] std::optional<CheckpointReport> take_report();

  /// Newest step that is written or being written; -1: none.
  [[nodiscard]] std::int64_t newest_step() const noexcept { return newest_step_; }
  /// Folder of the newest that is complete.
  [[nodiscard]] const std::string& newest_folder() const noexcept { return newest_folder_; }

 private:
  void take_result();

  Site site_;
  std::int64_t newest_step_ = -1;
  std::string newest_folder_;
  CheckpointSource source_ = CheckpointSource::State;  ///< source of the one under way
  bool is_under_way_ = false;                          ///< the same on all ranks
  std::unique_ptr<BackgroundCheckpoint> background_;   ///< null once its result is taken
  CheckpointReport times_;                             ///< times of the one under way
  std::optional<CheckpointReport> report_;
};

}  // namespace athanor
