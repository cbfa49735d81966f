// SPDX-License-Identifier: Apache-2.0
// Runs a program's lanes, step after step: one thread per lane, each in program order.
#pragma once

#include "sim/model/program.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace athanor {

/// An operation starts when its `waits` of the same step and its `previous_waits` of the step
/// before are done. A step starts when it is released; its boundary is no barrier.
class LaneScheduler {
 public:
  /// Called on the lane's thread. Throwing stops every lane.
  using Body = std::function<void(std::int32_t operation, std::int64_t step)>;

  /// Called on every lane's thread before its first operation; must not throw.
  using ThreadSetup = std::function<void(Lane lane)>;

  /// Steps count from `first_step`. `cancelled` is set when a lane fails, so that others that
  /// wait inside an operation (for other ranks) give up.
  LaneScheduler(
      const Program& program, std::int64_t first_step, Body body, std::atomic<bool>& cancelled,
      const ThreadSetup& set_up = [](Lane) {});
  /// Cancels what still runs and joins the lanes.
  ~LaneScheduler();
  LaneScheduler(const LaneScheduler&) = delete;
  LaneScheduler& operator=(const LaneScheduler&) = delete;

  /// Allows the lanes to run every step below `end`.
  void release_until(std::int64_t end);
  /// Returns when every lane has finished `step`. Throws Error with the first failure of a lane.
  void wait_for_step(std::int64_t step);
  /// Stops the lanes with this failure, as if one of them had thrown it.
  void fail(const std::string& failure);
  /// Throws Error with the first failure, if there was one.
  void throw_failure();

 private:
  void run_lane(std::size_t lane);
  void find_waiting_lanes();
  void wake_everybody();
  void mark_done(std::int32_t operation, std::int64_t step);
  void run_operation(std::int32_t operation, std::int64_t step);
  bool may_start(const Operation& op, std::int64_t step) const;

  const Program& program_;
  const std::int64_t first_step_;
  const Body body_;
  std::atomic<bool>& cancelled_;
  std::array<std::vector<std::int32_t>, kNumLanes> lane_operations_;
  /// By operation: the lanes with operations that wait for it. Waking only these matters: a core
  /// that runs a lane should not be busy waking others in vain.
  std::vector<std::array<bool, kNumLanes>> waiting_lanes_;

  std::mutex mutex_;
  std::array<std::condition_variable, kNumLanes> lane_changed_;
  std::condition_variable step_changed_;
  std::vector<std::int64_t> done_until_;                 // by operation: steps below are done
  std::array<std::int64_t, kNumLanes> lane_done_until_;  // by lane
  std::int64_t released_until_;
  bool stopping_ = false;
  std::optional<std::string> failure_;
  std::vector<std::thread> lanes_;
};

}  // namespace athanor
