// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_feed.hpp"

#include "executor/rendezvous/interrupts.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace athanor {

std::string launcher_socket(const std::string& key) { return "athanor-launcher-" + key; }

RankFeed::RankFeed(int num_ranks)
    : listening_(listen_locally(launcher_socket(key_))),
      ranks_(static_cast<std::size_t>(num_ranks)) {
  if (!listening_.is_open()) throw Error("no socket for the ranks to reach their launcher");
}

void RankFeed::accept_ranks() {
  while (true) {
    Descriptor connection = accept_locally(listening_);
    if (!connection.is_open()) break;
    send_outputs(connection);
    newcomers_.emplace_back(std::move(connection));
  }
  for (MessageLink& link : newcomers_) {
    const std::optional<RankMessage> hello = link.receive();
    if (!hello) continue;
    const auto rank = static_cast<std::size_t>(hello->rank);
    if (hello->kind != MessageKind::Hello || rank >= ranks_.size() || ranks_[rank].came) {
      link.close();
      continue;
    }
    ranks_[rank] = {std::move(link), *hello, now_, true, false};
    if (!first_came_at_) first_came_at_ = now_;
    if (stop_signal_ != 0) ask_to_stop(ranks_[rank]);
  }
  std::erase_if(newcomers_, [](const MessageLink& link) { return !link.is_open(); });
}

void RankFeed::hear(Rank& rank, const RankMessage& message) {
  rank.heard_at = now_;
  if (message.kind == MessageKind::Bye) {
    rank.left = true;
    if (exit_code_ == 0) exit_code_ = message.exit_code;
  } else {
    rank.last = message;
  }
}

void RankFeed::hear_all() {
  for (Rank& rank : ranks_) {
    while (const std::optional<RankMessage> message = rank.link.receive()) hear(rank, *message);
  }
}

void RankFeed::send_heartbeats() {
  if (now_ - sent_at_ < kHeartbeat) return;
  sent_at_ = now_;
  for (Rank& rank : ranks_) rank.link.send(message_of(MessageKind::Status, -1));
}

std::optional<std::string> RankFeed::find_missing() const {
  if (!first_came_at_ || now_ - *first_came_at_ < kArrival) return std::nullopt;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].came) continue;
    return fmt::format("rank {} has not started within {} s of the first; it may be stopped", rank,
                       kArrival);
  }
  return std::nullopt;
}

std::optional<std::string> RankFeed::find_silent() const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    if (!rank.link.is_open() || now_ - rank.heard_at < kLongSilence) continue;
    return fmt::format("rank {} (process {} on {}) has not been heard from for {} s; {}", i,
                       rank.last.process, rank.last.host_of(), kLongSilence, rank.last.text_of());
  }
  return std::nullopt;
}

std::optional<std::string> RankFeed::look() {
  now_ = clock_.now();
  accept_ranks();
  hear_all();
  send_heartbeats();
  if (auto missing = find_missing()) return missing;
  return find_silent();
}

void RankFeed::stop(int signal) {
  stop_signal_ = signal;
  for (Rank& rank : ranks_) ask_to_stop(rank);
}

void RankFeed::ask_to_stop(Rank& rank) const {
  RankMessage message = message_of(MessageKind::Stop, -1);
  message.exit_code = stop_signal_;
  rank.link.send(message);
}

bool RankFeed::all_have_ended() const {
  return std::ranges::all_of(ranks_,
                             [](const Rank& rank) { return rank.came && !rank.link.is_open(); });
}

bool RankFeed::has_lost_rank() const {
  return std::ranges::any_of(
      ranks_, [](const Rank& rank) { return rank.came && !rank.left && !rank.link.is_open(); });
}

bool RankFeed::has_failure() const {
  return (exit_code_ != kExitDone && exit_code_ != kExitInterrupted) || has_lost_rank();
}

bool RankFeed::all_have_left() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.left; });
}

void RankFeed::kill_ranks() const {
  for (const Rank& rank : ranks_) {
    if (!rank.link.is_open()) continue;
    const pid_t process = rank.link.process();
    if (process > 0) ::kill(process, SIGKILL);
  }
}

}  // namespace athanor
