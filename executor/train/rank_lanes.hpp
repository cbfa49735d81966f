// SPDX-License-Identifier: Apache-2.0
// The lanes of one rank, as they run one program.
#pragma once

#include "executor/backend/backend.hpp"
#include "executor/train/op_runner.hpp"
#include "executor/train/rank_context.hpp"
#include "executor/train/step_state.hpp"
#include "executor/train/timeline_recorder.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace athanor {

/// Number of steps that may be released before the oldest of them is complete, so that lanes never
/// wait for the main thread.
inline constexpr std::int64_t kStepsAhead = 2;
/// Step states that are needed at once.
inline constexpr std::int64_t kStepStates = kStepsAhead + 1;

/// Runs a program's operations, says to the watch how far they are, and names what fails. All of
/// the constructor's references outlive it.
class RankLanes {
 public:
  struct Options {
    std::int64_t first_step = 0;
    std::string step_name = "step";  ///< for messages
    Seconds deadline = 0;            ///< without progress, after which a rank counts as hanging
    TimelineRecorder* recorder = nullptr;
  };
  using StateOf = std::function<const StepState&(std::int64_t step)>;

  /// Starts the lanes and lets the watch follow them.
  RankLanes(const RankContext& context, OpRunner& runner, StateOf state_of, Backend& backend,
            std::atomic<bool>& cancelled, Options options);
  ~RankLanes();
  RankLanes(const RankLanes&) = delete;
  RankLanes& operator=(const RankLanes&) = delete;

  /// Lets the watch follow these lanes again, after others have run.
  void watch();
  void release_until(std::int64_t end) { lanes_->release_until(end); }
  void wait_for_step(std::int64_t step) { lanes_->wait_for_step(step); }
  void throw_failure() { lanes_->throw_failure(); }

 private:
  void set_up_thread(Lane lane) const;
  void run_operation(std::int32_t operation, std::int64_t step);
  void note_start(std::int32_t operation, std::int64_t step);
  void note_end(std::int32_t operation, std::int64_t step, Seconds start, Seconds end);

  const RankContext& context_;
  OpRunner& runner_;
  const StateOf state_of_;
  const Options options_;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace athanor
