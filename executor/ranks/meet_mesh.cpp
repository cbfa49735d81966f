// SPDX-License-Identifier: Apache-2.0
#include "executor/ranks/meet_mesh.hpp"

#include "executor/rendezvous/network_socket.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kTokenKey = "athanor/token";
/// Time in which a connection has to say who it is, and number of those that may wait at once.
constexpr std::chrono::seconds kIntroduction{5};
constexpr std::size_t kMostNewcomers = 256;

std::string place_key(int rank) { return fmt::format("athanor/rank/{}", rank); }

void put(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string get(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

/// The first bytes on a connection: the token of the job, and who comes.
struct Introduction {
  std::array<char, 32> token{};
  std::int32_t rank = -1;
};
static_assert(sizeof(Introduction) == 36);

/// A connection that has not said yet who it is.
struct Newcomer {
  Descriptor link;
  Clock::time_point came_at;
  Introduction introduction;
  std::size_t received = 0;

  [[nodiscard]] bool is_complete() const { return received == sizeof introduction; }
  /// Reads what has come and no byte more: what follows is the job's. Closes it where that fails.
  void read() {
    auto* const bytes = reinterpret_cast<char*>(&introduction);
    const ssize_t got =
        ::recv(link.get(), bytes + received, sizeof introduction - received, MSG_DONTWAIT);
    if (got > 0) received += static_cast<std::size_t>(got);
    const bool is_over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (is_over || Clock::now() - came_at > kIntroduction) link.close();
  }
};

class Meeting {
 public:
  Meeting(const RankInfo& rank, c10d::Store& store, std::chrono::seconds patience)
      : rank_(rank),
        store_(store),
        until_(Clock::now() + patience),
        links_(static_cast<std::size_t>(rank.world_size)) {}

  std::vector<Descriptor> run(std::span<const std::uint32_t> at) {
    listeners_ = listen_at(at);
    if (rank_.rank == 0) put(store_, kTokenKey, random_key());
    announce();
    const std::string token = get(store_, kTokenKey);
    std::ranges::copy(token.substr(0, own_.token.size()), own_.token.begin());
    own_.rank = rank_.rank;
    // The lower rank listens. Who connects need not wait until it accepts.
    for (int other = 0; other < rank_.rank; ++other) links_[other] = reach(other);
    while (is_waiting()) accept_some();
    return std::move(links_);
  }

 private:
  void announce() const {
    std::vector<std::string> places;
    for (const Listener& listener : listeners_) places.push_back(to_string(listener.endpoint));
    put(store_, place_key(rank_.rank), fmt::format("{}", fmt::join(places, " ")));
  }

  [[nodiscard]] Descriptor reach(int other) const {
    const std::string places = get(store_, place_key(other));
    std::vector<Endpoint> endpoints;
    std::istringstream words(places);
    for (std::string word; words >> word;) {
      if (const auto endpoint = parse_endpoint(word)) endpoints.push_back(*endpoint);
    }
    Descriptor link = connect_to(endpoints);
    // The socket is new: this always fits its buffer.
    if (!link.is_open() ||
        ::send(link.get(), &own_, sizeof own_, MSG_NOSIGNAL) != ssize_t{sizeof own_}) {
      throw Error(fmt::format("rank {} cannot reach rank {} at {}: {}", rank_.rank, other, places,
                              std::strerror(errno)));
    }
    return link;
  }

  [[nodiscard]] bool is_waiting() const {
    return std::any_of(links_.begin() + rank_.rank + 1, links_.end(),
                       [](const Descriptor& link) { return !link.is_open(); });
  }

  void accept_some() {
    wait();
    for (const Listener& listener : listeners_) {
      while (newcomers_.size() < kMostNewcomers) {
        Descriptor link = accept_from(listener);
        if (!link.is_open()) break;
        newcomers_.push_back({std::move(link), Clock::now(), {}, 0});
      }
    }
    for (Newcomer& newcomer : newcomers_) {
      newcomer.read();
      if (newcomer.is_complete()) admit(newcomer);
    }
    std::erase_if(newcomers_, [](const Newcomer& newcomer) { return !newcomer.link.is_open(); });
  }

  void wait() const {
    constexpr int kPeriodMs = 100;
    if (Clock::now() > until_) throw Error(missing());
    std::vector<pollfd> waits;
    const auto add = [&](const Descriptor& socket) {
      waits.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
    };
    for (const Listener& listener : listeners_) add(listener.socket);
    for (const Newcomer& newcomer : newcomers_) add(newcomer.link);
    ::poll(waits.data(), waits.size(), kPeriodMs);
  }

  /// Gives the connection to its rank if it brings the token; else it is closed.
  void admit(Newcomer& newcomer) {
    const auto& [token, rank] = newcomer.introduction;
    const bool is_due = token == own_.token && rank > rank_.rank && rank < rank_.world_size &&
                        !links_[static_cast<std::size_t>(rank)].is_open();
    if (is_due) {
      links_[static_cast<std::size_t>(rank)] = std::move(newcomer.link);
    } else {
      newcomer.link.close();
    }
  }

  [[nodiscard]] std::string missing() const {
    std::vector<int> ranks;
    for (int other = rank_.rank + 1; other < rank_.world_size; ++other) {
      if (!links_[static_cast<std::size_t>(other)].is_open()) ranks.push_back(other);
    }
    return fmt::format(
        "rank {} waits in vain for the ranks {}: they have not come, or a firewall "
        "keeps them from {}",
        rank_.rank, fmt::join(ranks, ", "), get(store_, place_key(rank_.rank)));
  }

  const RankInfo& rank_;
  c10d::Store& store_;
  const Clock::time_point until_;
  std::vector<Listener> listeners_;
  Introduction own_;
  std::vector<Newcomer> newcomers_;
  std::vector<Descriptor> links_;
};

}  // namespace

Mesh meet_mesh(const RankInfo& rank, c10d::Store& store, std::span<const std::uint32_t> at,
               std::chrono::seconds patience) {
  return {rank.rank, Meeting(rank, store, patience).run(at)};
}

}  // namespace athanor
