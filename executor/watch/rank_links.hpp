// SPDX-License-Identifier: Apache-2.0
// Connections between rank 0 and the other ranks. On one machine they meet under a name that
// follows from the job's key, before anything else; across machines at a port of rank 0.
#pragma once

#include "executor/rendezvous/network_socket.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/rendezvous/rank_message.hpp"
#include "sim/base/quantities.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// Addresses at which rank 0 listens for ranks of other machines, with the nonce that they must
/// send.
struct MeetingPlace {
  std::uint32_t num_endpoints = 0;
  std::array<Endpoint, 16> endpoints{};
  std::array<char, 36> nonce{};
};

/// Addresses of a rank's machine, as they travel through a collective.
struct MachineAddresses {
  std::uint32_t count = 0;
  std::array<std::uint32_t, 16> addresses{};
};
[[nodiscard]] MachineAddresses own_machine_addresses();

class RankLinks {
 public:
  using OnMessage = std::pair<int, RankMessage>;

  /// `key`: of a job whose ranks are all on this machine; empty: it is not.
  RankLinks(const RankInfo& rank, std::string key);

  /// Rank 0 listens at the addresses by which its machine reaches `others`, until all have come.
  [[nodiscard]] MeetingPlace open_meeting(std::span<const MachineAddresses> others);
  /// Other ranks try this place from now on.
  void go_to(const MeetingPlace& place) { place_ = place; }

  /// Accepts or connects what can be. `status` is this rank's.
  void connect(const RankMessage& status, Seconds now);
  [[nodiscard]] bool is_linked(int rank) const;
  /// Returns whether this rank is linked to rank 0, or is rank 0.
  [[nodiscard]] bool is_linked() const { return rank_ == 0 || is_linked(0); }
  /// Returns all messages that came, with the rank that sent each.
  [[nodiscard]] std::vector<OnMessage> receive();
  /// Returns the ranks whose links have broken since the last call.
  [[nodiscard]] std::vector<int> take_broken();
  /// Rank 0 sends to all, others to rank 0.
  void send(const RankMessage& message);
  /// Time of a message to a rank of another machine and back, as TCP sees it; nothing: unknown.
  [[nodiscard]] std::optional<Seconds> round_trip(int rank) const;
  /// Process of a rank on this machine, as this process sees it; 0: unknown.
  [[nodiscard]] pid_t process_of(int rank) const;

 private:
  struct Newcomer {
    MessageLink link;
    Seconds came_at = 0;
  };

  void accept_newcomers(Seconds now);
  void admit(Newcomer& newcomer);
  void end_meeting();
  void connect_to_rank_0(const RankMessage& status);
  [[nodiscard]] Descriptor reach_meeting() const;

  const int rank_;
  const std::string key_;
  std::string nonce_;  ///< the meeting place asks for it
  Descriptor local_;
  std::vector<Listener> network_;
  std::size_t num_admitted_ = 0;
  std::optional<MeetingPlace> place_;
  std::vector<Newcomer> newcomers_;
  std::vector<MessageLink> links_;  ///< [rank]; others than rank 0 have links_[0] alone
  std::vector<bool> linked_;        ///< [rank]: it was linked, and its end is not reported
};

/// Returns a key that all ranks of this job know and others do not, if they are on this machine.
[[nodiscard]] std::string key_of_local_job(const RankInfo& rank);

}  // namespace athanor
