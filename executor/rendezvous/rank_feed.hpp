// SPDX-License-Identifier: Apache-2.0
// The launcher's connections to the ranks that it has started. Ranks end when it no longer feeds
// them heartbeats, and it ends the job when it no longer hears a rank. Ranks get its stdout and
// stderr: an mpirun that ends its ranks, or is killed, passes on nothing of what they say.
#pragma once

#include "executor/rendezvous/process_watch.hpp"
#include "executor/rendezvous/rank_message.hpp"

#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Variable in which ranks find the key that leads them to their launcher.
inline constexpr const char* kLauncherKey = "ATHANOR_LAUNCHER";
/// Returns the name of the socket at which the launcher with this key listens.
[[nodiscard]] std::string launcher_socket(const std::string& key);

class RankFeed {
 public:
  /// Throws Error when no socket can be had.
  explicit RankFeed(int num_ranks);

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// Accepts ranks, hears them and, twice a second, sends heartbeats. Returns what is wrong with a
  /// rank: it does not come, or is not heard from.
  [[nodiscard]] std::optional<std::string> look();
  /// Asks all ranks to save their work and to end, because of `signal`.
  void stop(int signal);
  /// Whether every rank came and said how it ends.
  [[nodiscard]] bool all_have_left() const;
  /// Whether every rank came and its process has ended.
  [[nodiscard]] bool all_have_ended() const;
  /// Whether a rank has ended without a goodbye.
  [[nodiscard]] bool has_lost_rank() const;
  /// Whether a rank has ended without a goodbye, or with a failure.
  [[nodiscard]] bool has_failure() const;
  /// Returns the first exit code other than 0 that a rank named; 0: none did.
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }
  /// Kills every rank that came and did not leave.
  void kill_ranks() const;

 private:
  struct Rank {
    MessageLink link;
    RankMessage last;
    Seconds heard_at = 0;
    bool came = false, left = false;
  };

  void accept_ranks();
  void hear(Rank& rank, const RankMessage& message);
  void hear_all();
  void send_heartbeats();
  void ask_to_stop(Rank& rank) const;
  [[nodiscard]] std::optional<std::string> find_missing() const;
  [[nodiscard]] std::optional<std::string> find_silent() const;

  std::string key_ = random_key();
  Descriptor listening_;
  PatientClock clock_;
  Seconds now_ = 0, sent_at_ = -kHeartbeat;
  std::optional<Seconds> first_came_at_;
  std::vector<MessageLink> newcomers_;
  std::vector<Rank> ranks_;
  int exit_code_ = 0, stop_signal_ = 0;
};

}  // namespace athanor
