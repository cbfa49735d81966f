// SPDX-License-Identifier: Apache-2.0
// Watches over a job from inside one of its ranks, from the first line of main to the last.
#pragma once

#include "executor/rendezvous/process_watch.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/watch/link_watch.hpp"
#include "executor/watch/rank_links.hpp"
#include "executor/watch/rank_progress.hpp"
#include "executor/watch/watchdog.hpp"
#include "sim/model/program.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

namespace athanor {

/// A thread that sends this rank's heartbeat and hears the others': over connections with rank 0,
/// and with the launcher where that is athanor itself. It ends this process when another rank or
/// the launcher has failed, whatever this rank waits in, and when a signal comes before training.
class JobWatch {
 public:
  /// Called at most once, on the watch's thread, with a message that names what has failed.
  using OnFailure = std::function<void(const std::string& message)>;

  /// Starts it. `program` prefixes messages. A rank that a launcher has started also ends with it.
  JobWatch(const RankInfo& rank, std::string program);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  [[nodiscard]] RankProgress& progress() noexcept { return progress_; }
  /// Says what this rank does while it runs no steps, such as "it writes a checkpoint".
  void set_activity(std::string activity);
  /// While steps of `program` run, `on_failure` has a few seconds to end the process in its own
  /// way. `program` must live until forget_steps().
  void watch_steps(const Program& program, Seconds deadline, OnFailure on_failure);
  void forget_steps();

  /// From now on a signal only makes is_stop_wanted() true.
  void leave_stopping_to_caller() noexcept { caller_stops_ = true; }
  /// Whether athanor itself has launched this rank.
  [[nodiscard]] bool has_launcher() const noexcept { return has_launcher_; }
  /// Whether this rank was asked to save its work and to end.
  [[nodiscard]] bool is_stop_wanted() const noexcept { return stop_signal() != 0; }
  /// Returns the signal that asked for it, here or at the launcher; 0: none.
  [[nodiscard]] int stop_signal() const noexcept;

  /// Lets all ranks return from their steps, as a signal would, for something between two steps.
  void want_pause(bool wanted) noexcept { wants_pause_ = wanted; }
  [[nodiscard]] bool is_pause_wanted() const noexcept { return wants_pause_; }

  // Meeting of ranks on several machines.
  [[nodiscard]] bool is_linked() const;
  [[nodiscard]] MeetingPlace open_meeting(std::span<const MachineAddresses> others);
  /// Tries for some seconds to reach rank 0 there.
  void go_to(const MeetingPlace& place);
  /// Rank 0: from now on every rank that is linked, or is to be, must be heard from.
  void expect(int rank);

  /// Says goodbye with this rank's exit code. Then rank 0 waits until the others have ended, and
  /// ends those that do not; the others wait for rank 0's goodbye. The connections stay open until
  /// the process ends.
  void leave(int exit_code);

 private:
  void run();
  void look();
  void send_heartbeat();
  void hear_ranks();
  void hear(int rank, const RankMessage& message);
  void hear_launcher();
  void check_launcher();
  void check_missing_ranks();
  void check_links();
  void handle_interrupt();
  void say_interrupted(int signal);
  [[nodiscard]] bool may_end();
  [[nodiscard]] bool has_ended(int rank) const;
  void end_late_rank(int rank) const;
  void fail(const std::string& message, pid_t culprit);
  [[nodiscard]] RankMessage goodbye() const;
  void say_goodbye();
  [[noreturn]] void end_process(int exit_code);
  [[nodiscard]] RankMessage status() const;
  [[nodiscard]] std::string doing() const;
  [[nodiscard]] std::string running(const Program& program) const;
  void say(const std::string& text) const;

  const RankInfo rank_;
  const std::string program_name_;
  const pid_t parent_;  ///< 0: not started by a launcher
  RankProgress progress_;
  std::atomic<bool> caller_stops_{false}, wants_pause_{false};
  std::atomic<int> launchers_signal_{0};
  std::atomic<int> exit_code_{-1};  ///< leave()'s; -1: not yet

  mutable std::mutex mutex_;
  std::string activity_ = "it starts";
  const Program* program_ = nullptr;
  OnFailure on_failure_;
  RankLinks links_;
  Watchdog watchdog_;
  LinkWatch link_watch_;
  MessageLink launcher_;
  bool has_launcher_ = false;

  // The thread's own.
  PatientClock clock_;
  Seconds now_ = 0, sent_at_ = -kHeartbeat, launcher_heard_at_ = 0, parent_ran_at_ = 0;
  std::optional<Seconds> failed_at_, left_at_;
  std::vector<bool> gone_;                ///< [rank]: said goodbye
  std::map<int, Seconds> stopped_since_;  ///< missing ranks that do not run
  Descriptor wake_;
  std::thread thread_;
};

}  // namespace athanor
