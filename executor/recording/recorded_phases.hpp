// SPDX-License-Identifier: Apache-2.0
// Phases of units that are recorded once and then issued as a whole (Plan::cuda_graphs).
#pragma once

#include "executor/recording/work_recorder.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace athanor {

/// Runs operations of the compute lane through a device's recorder. An operation runs at once in
/// its first step, in which libraries make their plans and memory grows to what it will be. It is
/// recorded in its second step and issued as it was recorded from then on. A step has each
/// operation once and in one order, as recorded work needs it.
class RecordedPhases {
 public:
  /// `recorder` null: operations run at once, always. Not `records`: they do so with tensors in the
  /// recorder's memory, which lies idle between steps.
  RecordedPhases(WorkRecorder* recorder, bool records, std::size_t num_operations);

  /// Runs, records or repeats `work` of an operation. Returns whether it called `work`.
  bool run(std::int32_t operation, const std::function<void()>& work);
  /// Whether phases are recorded, so that what they read has to stay where it is.
  [[nodiscard]] bool records() const noexcept { return records_; }
  /// Returns the device memory that recordings take themselves. Any thread may ask.
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }

 private:
  struct Phase {
    bool has_run = false;
    std::unique_ptr<RecordedWork> recorded;
  };

  WorkRecorder* recorder_;
  bool records_;
  std::vector<Phase> phases_;  ///< [operation]
  std::atomic<Bytes> bytes_ = 0;
};

}  // namespace athanor
