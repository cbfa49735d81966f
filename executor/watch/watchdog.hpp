// SPDX-License-Identifier: Apache-2.0
// Decides from what is heard of other ranks which of them died, fell silent or hangs. It knows
// nothing of connections, and its clock is the caller's.
#pragma once

#include "executor/rendezvous/rank_message.hpp"
#include "sim/base/quantities.hpp"

#include <optional>
#include <string>
#include <vector>

namespace athanor {

class Watchdog {
 public:
  struct Finding {
    int rank = -1;
    std::string message;
  };

  explicit Watchdog(int world_size) : ranks_(static_cast<std::size_t>(world_size)) {}

  /// From `now` on the rank has to be heard from.
  void expect(int rank, Seconds now);
  /// Notes a rank's status.
  void hear(int rank, const RankMessage& status, Seconds now);
  /// Notes that the connection to a rank broke without a goodbye.
  void lose(int rank);
  /// Notes that a rank has ended. Nothing is expected of it any more.
  void release(int rank);
  /// Time without the end of an operation on any rank, all of which run steps, after which the rank
  /// that the others wait for counts as hanging.
  void set_deadline(Seconds deadline) noexcept { deadline_ = deadline; }

  /// Returns the ranks that are expected and have not been heard from yet.
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] bool is_missing(int rank) const;
  /// Returns the machine from which a rank was heard last.
  [[nodiscard]] std::string host_of(int rank) const;
  /// Returns the first rank with which something is wrong.
  [[nodiscard]] std::optional<Finding> look(Seconds now);

 private:
  struct Rank {
    bool expected = false, came = false, lost = false;
    Seconds heard_at = 0;
    std::int64_t operations = 0;
    RankMessage status;
  };

  [[nodiscard]] std::optional<std::string> problem_of(const Rank& rank, Seconds now) const;
  [[nodiscard]] bool is_machine_silent(const Rank& rank, Seconds now) const;
  [[nodiscard]] std::optional<Finding> find_hanging(Seconds now);
  [[nodiscard]] Finding describe(std::size_t rank, const std::string& what) const;

  std::vector<Rank> ranks_;
  Seconds deadline_ = 0;  ///< 0: none
  Seconds progress_at_ = 0;
};

}  // namespace athanor
