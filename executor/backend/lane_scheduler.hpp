// SPDX-License-Identifier: Apache-2.0
// The host's lanes: one thread per lane, each in program order.
#pragma once

#include "executor/backend/lanes.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace athanor {

/// Lanes as host threads. An operation runs on its lane's thread once its waits are over.
class LaneScheduler final : public Lanes {
 public:
  /// Starts the threads. `first_step` is the first to run. `cancelled` is set when a lane fails, so
  /// that others that wait inside an operation (for other ranks) give up.
  LaneScheduler(const Program& program, std::int64_t first_step, LaneCallbacks callbacks,
                std::atomic<bool>& cancelled);
  ~LaneScheduler() override;
  LaneScheduler(const LaneScheduler&) = delete;
  LaneScheduler& operator=(const LaneScheduler&) = delete;

  void release_until(std::int64_t end) override;
  void wait_for_step(std::int64_t step) override;
  void fail(const std::string& failure) override;
  void throw_failure() override;

 private:
  void run_lane(std::size_t lane);
  void find_waiting_lanes();
  void wake_everybody();
  void mark_done(std::int32_t operation, std::int64_t step);
  void run_operation(std::int32_t operation, std::int64_t step);
  bool may_start(const Operation& op, std::int64_t step) const;

  const Program& program_;
  const std::int64_t first_step_;
  const LaneCallbacks callbacks_;
  std::atomic<bool>& cancelled_;
  std::array<std::vector<std::int32_t>, kNumLanes> lane_operations_;
  /// Lanes with operations that wait for each operation. Only these are woken: a core that runs a
  /// lane should not be busy waking others in vain.
  std::vector<std::array<bool, kNumLanes>> waiting_lanes_;

  std::mutex mutex_;
  std::array<std::condition_variable, kNumLanes> lane_changed_;
  std::condition_variable step_changed_;
  std::vector<std::int64_t> done_until_;                 // [operation]: steps below are done
  std::array<std::int64_t, kNumLanes> lane_done_until_;  // [lane]
  std::int64_t released_until_;
  bool stopping_ = false;
  std::optional<std::string> failure_;
  std::vector<std::thread> lanes_;
};

}  // namespace athanor
