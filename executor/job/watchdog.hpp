// SPDX-License-Identifier: Apache-2.0
// Notices ranks that died, were stopped or hang, so that the others do not wait for them forever.
#pragma once

#include "executor/job/progress_board.hpp"
#include "sim/model/program.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace athanor {

/// A thread that keeps this rank's heartbeat and looks at the others' twice a second.
class Watchdog {
 public:
  /// Called at most once, on the watchdog's thread, with a message that names the rank.
  using OnFailure = std::function<void(const std::string& message)>;

  /// `deadline`: time without the end of an operation on any rank after which the rank that the
  /// others wait for counts as hanging.
  Watchdog(ProgressBoard& board, const Program& program, Seconds deadline, OnFailure on_failure);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Says whether operations are expected to end. Between steps (checkpoints) they are not;
  /// heartbeats go on.
  void expect_progress(bool expected);

 private:
  /// The last observation of a rank. Times are those of watched_.
  struct Seen {
    std::int64_t operations = 0;
    std::int64_t heartbeat_ns = 0;
    Seconds heard_at = 0;
  };

  void run();
  [[nodiscard]] std::optional<std::string> find_silent_rank();
  [[nodiscard]] std::optional<std::string> find_hanging_rank();
  [[nodiscard]] std::string running_on(const RankRecord& record) const;
  [[nodiscard]] std::string describe(int rank, const std::string& what) const;

  ProgressBoard& board_;
  const Program& program_;
  const Seconds deadline_;
  const OnFailure on_failure_;
  std::vector<Seen> seen_;   ///< [rank]
  Seconds watched_ = 0;      ///< time during which this thread ran as it should
  Seconds progress_at_ = 0;  ///< time when an operation last ended
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  bool reported_ = false;
  std::thread thread_;
};

}  // namespace athanor
