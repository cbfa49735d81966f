// SPDX-License-Identifier: Apache-2.0
// A program's lanes on a GPU: a stream for each, and host threads for the CPU's Adam and for files.
#pragma once

#include "executor/backend/lanes.hpp"
#include "executor/cuda/cuda_device.hpp"
#include "executor/cuda/lane_progress.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace athanor::cuda {

/// Lanes as streams, with everything issued ahead. The device's issuing thread walks the program in
/// its order and puts operations on their streams. Streams wait for each other by events and for
/// the host's lanes by flags; host threads wait by flags, too. Nothing waits for the issuing
/// thread, and it waits for nothing.
class StreamLanes final : public Lanes {
 public:
  /// Starts the threads on idle streams. `abort_collectives` is called once when a lane fails, so
  /// that streams do not wait for ranks that never come.
  StreamLanes(CudaDevice& device, const Program& program, std::int64_t first_step,
              LaneCallbacks callbacks, std::atomic<bool>& cancelled,
              std::function<void()> abort_collectives);
  ~StreamLanes() override;
  StreamLanes(const StreamLanes&) = delete;
  StreamLanes& operator=(const StreamLanes&) = delete;

  void release_until(std::int64_t end) override;
  void wait_for_step(std::int64_t step) override;
  void fail(const std::string& failure) override;
  void throw_failure() override;

 private:
  /// Steps whose events are kept: those that are issued, and the one that is reported.
  static constexpr std::int64_t kEventSteps = 4;
  struct EventPair {
    Event start, end;
  };

  void issue_step(std::int64_t step);
  /// Issues an operation. The host's time for it counts from `start`, the end of the issue before.
  /// Returns the end of this issue.
  Seconds issue(std::int32_t operation, std::int64_t step, Seconds start);
  void let_wait(Lane lane, std::int32_t operation, std::int64_t step);
  void run_host_lane(Lane lane);
  void run_on_host(std::int32_t operation, std::int64_t step);
  [[nodiscard]] bool wait_for_release(std::int64_t step);

  void tie_clocks();
  void report_progress();
  void report_lane(Lane lane);
  void report_done(std::int32_t operation, std::int64_t step);
  [[nodiscard]] bool waits_are_over(const Operation& op, std::int64_t step) const;
  [[nodiscard]] const EventPair& events(std::int32_t operation, std::int64_t step) const;

  CudaDevice& device_;
  const Program& program_;
  const std::int64_t first_step_;
  const LaneCallbacks callbacks_;
  std::atomic<bool>& cancelled_;
  const std::function<void()> abort_collectives_;
  LaneProgress progress_;
  std::vector<std::int32_t> event_index_;  ///< [operation]; -1 on the host's lanes
  std::vector<EventPair> events_;          ///< [step % kEventSteps][event_index_]
  std::size_t events_per_step_ = 0;
  /// Numbers that streams wait for already: [waiting lane][lane waited for].
  std::array<std::array<std::int64_t, kNumLanes>, kNumLanes> awaited_{};

  // Used by the thread that waits for steps alone.
  std::array<std::int64_t, kNumLanes> reported_{}, announced_{};  ///< [lane]: operations
  Event origin_;
  const Event* reference_ = &origin_;  ///< event whose time on the host's clock is known
  Seconds reference_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t released_until_;
  std::atomic<bool> stopping_ = false;
  std::optional<std::string> failure_;
  std::vector<std::thread> host_lanes_;  ///< last: joined before the rest is destroyed
};

}  // namespace athanor::cuda
