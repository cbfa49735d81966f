// SPDX-License-Identifier: Apache-2.0
// The launcher's side of a running job: waits for its end, and ends what does not end by itself.
#pragma once

#include "executor/rendezvous/rank_feed.hpp"

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

class LaunchedJob {
 public:
  explicit LaunchedJob(int num_ranks) : feed_(num_ranks) {}

  /// Key that the ranks need in kLauncherKey.
  [[nodiscard]] const std::string& key() const noexcept { return feed_.key(); }
  /// Starts a process of the job: a rank, or the program that starts ranks. It ends with this one.
  /// `become` runs in it and replaces it. Throws Error.
  void start(const std::string& name, const std::function<void()>& become);
  /// Waits for the end of all processes. Asks the ranks to end when this process is interrupted.
  /// Kills the job where a process is stopped or silent, and a while after one has failed. Returns
  /// the exit code that a rank named, else the first of a process that failed, else 0.
  [[nodiscard]] int wait();

 private:
  struct Child {
    pid_t process = -1;
    std::string name;
    Seconds running_at = 0;
  };

  void reap();
  void pass_on_interrupt();
  [[nodiscard]] std::optional<std::string> find_stopped();
  void end_if_late();
  void kill_all() const;

  RankFeed feed_;
  PatientClock clock_;
  Seconds now_ = 0;
  std::vector<Child> children_;
  int failure_ = 0;
  std::optional<Seconds> end_at_;
  bool told_ = false, killed_ = false;
};

}  // namespace athanor
