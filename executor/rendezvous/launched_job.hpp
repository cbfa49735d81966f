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

/// How a job has ended.
struct JobEnd {
  int exit_code = 0;
  bool lost_process = false;  ///< some process was killed or hung, rather than failing by itself
  Seconds ending = 0;         ///< from the first sign of that until all processes had ended
};

/// Time that ranks have, after the first has failed, to report what they saw.
inline constexpr Seconds kReportGrace = 8;

class LaunchedJob {
 public:
  explicit LaunchedJob(int num_ranks, Seconds grace = kReportGrace)
      : feed_(num_ranks), grace_(grace), has_one_rank_(num_ranks == 1) {}

  /// Key that the ranks need in kLauncherKey.
  [[nodiscard]] const std::string& key() const noexcept { return feed_.key(); }
  /// Starts a process of the job: a rank, or the program that starts ranks. It ends with this one.
  /// `become` runs in it and replaces it. Throws Error.
  void start(const std::string& name, const std::function<void()>& become);
  /// Waits for the end of all processes. Asks the ranks to end when this process is interrupted.
  /// Kills the job where a process is stopped or silent, and a while after one has failed. The exit
  /// code is the one that a rank named, else the first of a process that failed, else 0.
  [[nodiscard]] JobEnd wait();

 private:
  struct Child {
    pid_t process = -1;
    std::string name;
    Seconds running_at = 0;
  };

  void reap();
  void name_killed(const Child& child, int status) const;
  void note_loss();
  void pass_on_interrupt();
  [[nodiscard]] std::optional<std::string> find_stopped();
  void end_if_late();
  void kill_all() const;

  RankFeed feed_;
  const Seconds grace_;
  const bool has_one_rank_;
  PatientClock clock_;
  Seconds now_ = 0;
  std::vector<Child> children_;
  int failure_ = 0;
  std::optional<Seconds> end_at_;
  std::optional<Seconds> lost_at_;
  bool told_ = false, killed_ = false;
};

}  // namespace athanor
