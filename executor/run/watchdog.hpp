// SPDX-License-Identifier: Apache-2.0
// Notices ranks that died, were stopped or hang, so that the others do not wait for them forever.
#pragma once

#include "executor/run/progress_board.hpp"
#include "sim/model/program.hpp"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace athanor {

/// A thread that keeps this rank's heartbeat and looks at everybody else's once a second.
class Watchdog {
 public:
  /// Called at most once, on the watchdog's thread, with a message that names the rank.
  using OnFailure = std::function<void(const std::string& message)>;

  /// `deadline`: seconds without an operation that ends, on any rank, before the rank that the
  /// others wait for is taken to hang.
  Watchdog(ProgressBoard& board, const Program& program, Seconds deadline, OnFailure on_failure);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Between steps (checkpoints) nothing is expected to end; heartbeats go on.
  void expect_progress(bool expected);

 private:
  void run();
  [[nodiscard]] std::optional<std::string> find_silent_rank() const;
  [[nodiscard]] std::optional<std::string> find_hanging_rank();
  [[nodiscard]] std::string running_on(const RankRecord& record) const;
  [[nodiscard]] std::string describe(int rank, const std::string& what) const;

  ProgressBoard& board_;
  const Program& program_;
  const Seconds deadline_;
  const OnFailure on_failure_;
  std::map<int, std::int64_t> seen_operations_;  // by rank
  std::int64_t last_progress_ns_;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  bool reported_ = false;
  std::thread thread_;
};

}  // namespace athanor
