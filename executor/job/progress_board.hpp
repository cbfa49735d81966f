// SPDX-License-Identifier: Apache-2.0
// Heartbeats and progress of the ranks of a node: one record per rank in a file that all of them
// map.
#pragma once

#include "sim/model/platform.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace athanor {

enum class RankPhase : std::int64_t {
  Away,          ///< not started yet, or done: nothing is expected
  BetweenSteps,  ///< keeps its heartbeat, ends no operations (checkpoints)
  Stepping,
};

/// One rank's record. Written by its rank alone; every field is read on its own.
struct RankRecord {
  std::atomic<std::int64_t> process{0};       ///< process id; 0 before the rank joined
  std::atomic<std::int64_t> heartbeat_ns{0};  ///< monotonic clock of the node
  std::atomic<std::int64_t> operations{0};    ///< operations ended so far, on all lanes
  std::atomic<std::int64_t> collectives{0};   ///< collectives entered so far
  std::array<std::atomic<std::int64_t>, kNumLanes> running{
      -1, -1, -1, -1, -1, -1, -1};    ///< [lane]: operation, or -1
  std::atomic<std::int64_t> step{0};  ///< step of the operation that started last
  std::atomic<RankPhase> phase{RankPhase::Away};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "shared between processes");

/// The mapped file. Ranks on other nodes must not share it: a mapping is coherent on one node only.
class ProgressBoard {
 public:
  /// Creates or opens `path` for `world_size` ranks and clears this rank's record. Throws Error.
  ProgressBoard(const std::string& path, int rank, int world_size);
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  [[nodiscard]] RankRecord& own() noexcept { return records_[rank_]; }
  [[nodiscard]] const RankRecord& record(int rank) const noexcept { return records_[rank]; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return world_size_; }

 private:
  int rank_, world_size_;
  std::size_t bytes_;
  RankRecord* records_ = nullptr;
};

/// Reads the node's monotonic clock, which all its processes share.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;

}  // namespace athanor
