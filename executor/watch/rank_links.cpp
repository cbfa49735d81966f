// SPDX-License-Identifier: Apache-2.0
#include "executor/watch/rank_links.hpp"

#include "executor/rendezvous/process_watch.hpp"
#include "executor/rendezvous/rank_feed.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace athanor {
namespace {

/// Strangers that may wait at the port at the same time, and for how long.
constexpr std::size_t kMostNewcomers = 256;
constexpr Seconds kPatience = 5;

/// The name does not give the key away: all users can list names.
std::string socket_name(const std::string& key) {
  return fmt::format("athanor-ranks-{:016x}", std::hash<std::string>{}("athanor" + key));
}

}  // namespace

std::string key_of_local_job(const RankInfo& rank) {
  if (rank.world_size == 1 || !rank.is_on_one_machine()) return {};
  const auto value_of = [](const char* name) { return std::string(environment_variable(name)); };
  if (std::string key = value_of(kLauncherKey); !key.empty()) return key;
  const std::string mpi = value_of("OMPI_MCA_orte_precondition_transports");
  if (!mpi.empty()) return mpi + value_of("PMIX_NAMESPACE");
  const std::string elastic = value_of("TORCHELASTIC_RUN_ID");
  if (elastic.empty()) return {};
  return elastic + ":" + value_of("MASTER_PORT") + ":" + value_of("TORCHELASTIC_RESTART_COUNT");
}

RankLinks::RankLinks(const RankInfo& rank, std::string key)
    : rank_(rank.rank),
      key_(std::move(key)),
      links_(static_cast<std::size_t>(rank.rank == 0 ? rank.world_size : 1)),
      linked_(links_.size(), false) {
  if (rank_ == 0 && !key_.empty()) local_ = listen_locally(socket_name(key_));
}

MachineAddresses own_machine_addresses() {
  MachineAddresses machine;
  for (const std::uint32_t address : own_addresses()) {
    if (machine.count < machine.addresses.size()) machine.addresses.at(machine.count++) = address;
  }
  return machine;
}

MeetingPlace RankLinks::open_meeting(std::span<const MachineAddresses> others) {
  std::vector<std::uint32_t> addresses;
  for (const MachineAddresses& other : others) {
    addresses.insert(addresses.end(), other.addresses.begin(),
                     other.addresses.begin() + other.count);
  }
  network_ = listen_at(addresses_towards(addresses));
  nonce_ = random_key();
  MeetingPlace place;
  std::ranges::copy(nonce_, place.nonce.begin());
  for (const Listener& listener : network_) {
    if (place.num_endpoints < place.endpoints.size()) {
      place.endpoints.at(place.num_endpoints++) = listener.endpoint;
    }
  }
  return place;
}

/// Closes the ports of the meeting once nobody else is to come.
void RankLinks::end_meeting() {
  if (num_admitted_ + 1 == links_.size()) network_.clear();
}

void RankLinks::accept_newcomers(Seconds now) {
  while (local_.is_open()) {
    Descriptor connection = accept_locally(local_);
    if (!connection.is_open()) break;
    newcomers_.push_back({MessageLink(std::move(connection)), now});
  }
  for (const Listener& listener : network_) {
    while (newcomers_.size() < kMostNewcomers) {
      Descriptor connection = accept_from(listener);
      if (!connection.is_open()) break;
      newcomers_.push_back({MessageLink(std::move(connection)), now});
    }
  }
}

/// Makes a newcomer that brings the job's secret the link of its rank.
void RankLinks::admit(Newcomer& newcomer) {
  const std::optional<RankMessage> hello = newcomer.link.receive();
  if (!hello) return;
  const auto rank = static_cast<std::size_t>(hello->rank);
  const std::string secret = hello->text_of();
  const bool knows = !secret.empty() && (secret == key_ || secret == nonce_);
  if (hello->kind == MessageKind::Hello && knows && rank > 0 && rank < links_.size() &&
      !linked_[rank]) {
    links_[rank] = std::move(newcomer.link);
    linked_[rank] = true;
    ++num_admitted_;
  }
  newcomer.link.close();
}

Descriptor RankLinks::reach_meeting() const {
  return connect_to(std::span(place_->endpoints).first(place_->num_endpoints));
}

void RankLinks::connect_to_rank_0(const RankMessage& status) {
  if (linked_[0]) return;
  Descriptor connection;
  std::string secret = key_;
  if (!key_.empty()) connection = connect_locally(socket_name(key_));
  if (!connection.is_open() && place_) {
    connection = reach_meeting();
    secret = {place_->nonce.data(), ::strnlen(place_->nonce.data(), place_->nonce.size())};
  }
  if (!connection.is_open()) return;
  links_[0] = MessageLink(std::move(connection));
  linked_[0] = true;
  RankMessage hello = status;
  hello.kind = MessageKind::Hello;
  hello.set_text(secret);
  links_[0].send(hello);
  links_[0].send(status);
}

void RankLinks::connect(const RankMessage& status, Seconds now) {
  if (rank_ != 0) return connect_to_rank_0(status);
  accept_newcomers(now);
  for (Newcomer& newcomer : newcomers_) {
    admit(newcomer);
    if (now - newcomer.came_at > kPatience) newcomer.link.close();
  }
  std::erase_if(newcomers_, [](const Newcomer& newcomer) { return !newcomer.link.is_open(); });
  end_meeting();
}

bool RankLinks::is_linked(int rank) const { return linked_.at(static_cast<std::size_t>(rank)); }

std::vector<RankLinks::OnMessage> RankLinks::receive() {
  std::vector<OnMessage> messages;
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    while (const std::optional<RankMessage> message = links_[rank].receive()) {
      messages.emplace_back(static_cast<int>(rank), *message);
    }
  }
  return messages;
}

std::vector<int> RankLinks::take_broken() {
  std::vector<int> broken;
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    if (!linked_[rank] || links_[rank].is_open()) continue;
    linked_[rank] = false;
    broken.push_back(static_cast<int>(rank));
  }
  return broken;
}

void RankLinks::send(const RankMessage& message) {
  for (MessageLink& link : links_) link.send(message);
}

std::optional<Seconds> RankLinks::round_trip(int rank) const {
  constexpr double kMicroseconds = 1e-6;
  const auto index = static_cast<std::size_t>(rank);
  if (index >= links_.size() || !links_[index].is_open()) return std::nullopt;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(links_[index].descriptor(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    return std::nullopt;  // a local socket
  }
  return kMicroseconds * info.tcpi_rtt;
}

pid_t RankLinks::process_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= links_.size()) return 0;  // others than rank 0 are linked to rank 0 alone
  const MessageLink& link = links_[index];
  return link.is_open() ? link.process() : 0;
}

}  // namespace athanor
