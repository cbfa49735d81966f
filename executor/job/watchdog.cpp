// SPDX-License-Identifier: Apache-2.0
#include "executor/job/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr std::chrono::milliseconds kPeriod{500};
constexpr Seconds kSilence = 12;  // a heartbeat this old means that the process does not run
/// Longest time between two looks that counts. A later look was held up itself, as all ranks are
/// when a virtual machine stands still; the excess is no rank's silence.
constexpr Seconds kLongestPeriod = 1;

bool process_is_gone(std::int64_t process) {
  return ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

}  // namespace

Watchdog::Watchdog(ProgressBoard& board, const Program& program, Seconds deadline,
                   OnFailure on_failure)
    : board_(board),
      program_(program),
      deadline_(deadline),
      on_failure_(std::move(on_failure)),
      seen_(static_cast<std::size_t>(board.world_size())),
      thread_([this] { run(); }) {
  expect_progress(false);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
  // A rank that hangs may be the first to notice and never get further than here: the others must
  // go on expecting it, or nobody ends the job.
  if (!reported_) board_.own().phase = RankPhase::Away;
}

void Watchdog::expect_progress(bool expected) {
  board_.own().phase = expected ? RankPhase::Stepping : RankPhase::BetweenSteps;
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_changed_.wait_for(lock, kPeriod, [this] { return stop_; })) {
    const std::int64_t now = monotonic_ns();
    watched_ +=
        std::min(static_cast<double>(now - board_.own().heartbeat_ns) * 1e-9, kLongestPeriod);
    board_.own().heartbeat_ns = now;
    std::optional<std::string> failure = find_silent_rank();
    if (!failure) failure = find_hanging_rank();
    if (!failure) continue;
    if (std::exchange(reported_, true)) continue;
    lock.unlock();
    on_failure_(*failure);
    lock.lock();
  }
}

/// Says what the rank runs. A collective is named only when the rank runs nothing else, because
/// other ranks wait in collectives too.
std::string Watchdog::running_on(const RankRecord& record) const {
  std::vector<std::string> names;
  for (const Lane lane : {Lane::Compute, Lane::H2D, Lane::D2H, Lane::CpuAdam, Lane::NvmeRead,
                          Lane::NvmeWrite, Lane::Collective}) {
    const std::int64_t operation = record.running[static_cast<std::size_t>(lane)];
    if (operation < 0 || (lane == Lane::Collective && !names.empty())) continue;
    names.push_back(fmt::format("'{}'", program_.name(static_cast<std::int32_t>(operation))));
  }
  if (names.empty()) return "it is between operations";
  return fmt::format("it is in {} of step {}", fmt::join(names, ", "), record.step.load() + 1);
}

std::string Watchdog::describe(int rank, const std::string& what) const {
  const RankRecord& record = board_.record(rank);
  return fmt::format("rank {} (process {}) {}; {}", rank, record.process.load(), what,
                     running_on(record));
}

std::optional<std::string> Watchdog::find_silent_rank() {
  for (int rank = 0; rank < board_.world_size(); ++rank) {
    const RankRecord& record = board_.record(rank);
    if (rank == board_.rank() || record.phase == RankPhase::Away) continue;
    if (process_is_gone(record.process)) {
      return describe(rank, "has died");
    }
    Seen& seen = seen_[static_cast<std::size_t>(rank)];
    const std::int64_t heartbeat = record.heartbeat_ns;
    if (std::exchange(seen.heartbeat_ns, heartbeat) != heartbeat) seen.heard_at = watched_;
    if (watched_ - seen.heard_at > kSilence) {
      return describe(rank, fmt::format("has not been heard from for {} s", kSilence));
    }
  }
  return std::nullopt;
}

std::optional<std::string> Watchdog::find_hanging_rank() {
  bool progress = false;
  int latest = 0;
  for (int rank = 0; rank < board_.world_size(); ++rank) {
    const RankRecord& record = board_.record(rank);
    const std::int64_t operations = record.operations;
    progress |=
        record.phase != RankPhase::Stepping ||
        std::exchange(seen_[static_cast<std::size_t>(rank)].operations, operations) != operations;
    if (record.collectives < board_.record(latest).collectives) latest = rank;
  }
  if (progress) progress_at_ = watched_;
  const Seconds idle = watched_ - progress_at_;
  if (idle < deadline_) return std::nullopt;
  return describe(latest, fmt::format("keeps the others waiting for {:.0f} s", idle));
}

}  // namespace athanor
