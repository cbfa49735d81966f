// SPDX-License-Identifier: Apache-2.0
#include "executor/watch/rank_links.hpp"

#include "executor/rendezvous/process_watch.hpp"
#include "executor/rendezvous/rank_feed.hpp"
#include "sim/base/errors.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
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

/// This machine's IPv4 addresses that others can reach; the loopback's where there is no other.
std::vector<std::uint32_t> own_addresses() {
  std::vector<std::uint32_t> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                        (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable) continue;
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr);
  }
  ::freeifaddrs(list);
  if (addresses.empty()) addresses.push_back(::htonl(INADDR_LOOPBACK));
  return addresses;
}

/// Connects within two seconds. Not open: nobody answers there.
Descriptor connect_to(std::uint32_t address, std::uint16_t port) {
  constexpr int kPatienceMs = 2000;
  Descriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = ::htons(port);
  name.sin_addr.s_addr = address;
  const auto* const plain = reinterpret_cast<const sockaddr*>(&name);
  if (::connect(connection.get(), plain, sizeof name) != 0 && errno != EINPROGRESS) return {};
  pollfd ready{.fd = connection.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t length = sizeof error;
  if (::poll(&ready, 1, kPatienceMs) != 1 ||
      ::getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    return {};
  }
  return connection;
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

MeetingPlace RankLinks::open_meeting() {
  network_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = ::htonl(INADDR_ANY);
  socklen_t length = sizeof name;
  auto* const plain = reinterpret_cast<sockaddr*>(&name);
  if (::bind(network_.get(), plain, length) != 0 || ::listen(network_.get(), SOMAXCONN) != 0 ||
      ::getsockname(network_.get(), plain, &length) != 0) {
    throw Error(fmt::format("no port for the ranks to meet at: {}", std::strerror(errno)));
  }
  nonce_ = random_key();
  MeetingPlace place;
  place.port = ::ntohs(name.sin_port);
  std::ranges::copy(nonce_, place.nonce.begin());
  for (const std::uint32_t address : own_addresses()) {
    if (place.num_addresses < place.addresses.size()) {
      place.addresses.at(place.num_addresses++) = address;
    }
  }
  return place;
}

void RankLinks::accept_newcomers(Seconds now) {
  while (local_.is_open()) {
    Descriptor connection = accept_locally(local_);
    if (!connection.is_open()) break;
    newcomers_.push_back({MessageLink(std::move(connection)), now});
  }
  while (network_.is_open() && newcomers_.size() < kMostNewcomers) {
    Descriptor connection(
        ::accept4(network_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.is_open()) break;
    newcomers_.push_back({MessageLink(std::move(connection)), now});
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
  }
  newcomer.link.close();
}

Descriptor RankLinks::reach_meeting() const {
  for (std::size_t i = 0; i < place_->num_addresses; ++i) {
    Descriptor connection = connect_to(place_->addresses.at(i), place_->port);
    if (connection.is_open()) return connection;
  }
  return {};
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

pid_t RankLinks::process_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= links_.size()) return 0;  // others than rank 0 are linked to rank 0 alone
  const MessageLink& link = links_[index];
  return link.is_open() ? link.process() : 0;
}

}  // namespace athanor
