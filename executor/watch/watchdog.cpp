// SPDX-License-Identifier: Apache-2.0
#include "executor/watch/watchdog.hpp"

#include "executor/rendezvous/process_watch.hpp"
#include "executor/watch/rank_progress.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor {

void Watchdog::expect(int rank, Seconds now) {
  Rank& record = ranks_.at(static_cast<std::size_t>(rank));
  if (std::exchange(record.expected, true)) return;
  record.heard_at = now;
}

void Watchdog::hear(int rank, const RankMessage& status, Seconds now) {
  Rank& record = ranks_.at(static_cast<std::size_t>(rank));
  record.came = record.expected = true;
  record.heard_at = now;
  record.status = status;
}

void Watchdog::lose(int rank) { ranks_.at(static_cast<std::size_t>(rank)).lost = true; }

void Watchdog::release(int rank) { ranks_.at(static_cast<std::size_t>(rank)).expected = false; }

bool Watchdog::is_missing(int rank) const {
  const Rank& record = ranks_.at(static_cast<std::size_t>(rank));
  return record.expected && !record.came;
}

std::string Watchdog::host_of(int rank) const {
  return ranks_.at(static_cast<std::size_t>(rank)).status.host_of();
}

std::vector<int> Watchdog::missing() const {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (is_missing(static_cast<int>(rank))) missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

Watchdog::Finding Watchdog::describe(std::size_t rank, const std::string& what) const {
  const RankMessage& status = ranks_[rank].status;
  if (!ranks_[rank].came) return {static_cast<int>(rank), fmt::format("rank {} {}", rank, what)};
  return {static_cast<int>(rank),
          fmt::format("rank {} (process {} on {}) {}; {}", rank, status.process, status.host_of(),
                      what, status.text_of())};
}

std::optional<std::string> Watchdog::problem_of(const Rank& rank, Seconds now) const {
  if (!rank.expected) return std::nullopt;
  if (rank.lost) return "has died";
  const Seconds silent = now - rank.heard_at;
  if (rank.came && silent > kSilence) {
    return fmt::format("has not been heard from for {} s{}", kSilence,
                       is_machine_silent(rank, now)
                           ? fmt::format(", nor has any rank of {}, so the link to it may be cut",
                                         rank.status.host_of())
                           : "");
  }
  if (!rank.came && silent > kArrival) {
    return fmt::format("has not started within {} s; it may be stopped", kArrival);
  }
  return std::nullopt;
}

/// Whether none of the ranks on this rank's machine is heard, and there are others elsewhere.
bool Watchdog::is_machine_silent(const Rank& rank, Seconds now) const {
  constexpr Seconds kMargin =
      4;  // a cut link silences them together, but a busy machine hears late
  const std::string host = rank.status.host_of();
  bool has_other_machine = false;
  for (const Rank& other : ranks_) {
    if (!other.expected || !other.came) continue;
    const bool is_there = other.status.host_of() == host;
    has_other_machine |= !is_there;
    if (is_there && now - other.heard_at < kSilence - kMargin) return false;
  }
  return has_other_machine;
}

std::optional<Watchdog::Finding> Watchdog::look(Seconds now) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (const auto problem = problem_of(ranks_[rank], now)) return describe(rank, *problem);
  }
  return find_hanging(now);
}

std::optional<Watchdog::Finding> Watchdog::find_hanging(Seconds now) {
  bool progress = deadline_ <= 0;
  std::size_t latest = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const std::int64_t operations = rank.status.operations;
    progress |= !rank.came || !rank.expected ||
                rank.status.phase != static_cast<std::int32_t>(RankPhase::Stepping) ||
                std::exchange(rank.operations, operations) != operations;
    if (rank.status.collectives < ranks_[latest].status.collectives) latest = i;
  }
  if (progress) progress_at_ = now;
  const Seconds idle = now - progress_at_;
  if (progress || idle < deadline_) return std::nullopt;
  return describe(latest, fmt::format("keeps the others waiting for {:.0f} s", idle));
}

}  // namespace athanor
