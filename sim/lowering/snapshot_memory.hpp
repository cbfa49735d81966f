// SPDX-License-Identifier: Apache-2.0
// Size of the log of a plan with snapshots: what a rank notes beside its state in host memory, so
// that training can go on from that state when its processes have died. executor/snapshot fills it.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <cstdint>

namespace athanor {

/// Steps whose marks are kept: the main thread reads losses that many steps late at most.
inline constexpr int kSnapshotMarks = 4;

/// Versions that are kept: one is whole while the next one is written.
inline constexpr int kKeptVersions = 2;

// A redo log also has what follows. Under Snapshot::Versions and Snapshot::Copy the old state stays
// whole, and needs none of it.

/// Elements of a block: what one thread updates between two notes. Its old state stays in the
/// second-level cache of one core.
inline constexpr std::int64_t kRedoBlockElements = 16 * 1024;

/// Bytes of one element's parameters and optimizer state, whatever their type.
inline constexpr Bytes kUpdatedBytes = 12;

/// Threads that update at once, at most. It is a constant, so that a plan's memory does not depend
/// on its threads, and any number of them may resume it.
inline constexpr std::int64_t kRedoSlots = 128;

/// Sections of a rank's log, one after the other.
struct SnapshotLogSize {
  std::int64_t blocks = 0;  ///< number in all chunks of a redo log
  Bytes header = 0;         ///< identity of the run
  Bytes marks = 0;          ///< constants of the last steps' updates, and losses
  Bytes block_steps = 0;    ///< steps that each block has
  Bytes undo = 0;           ///< old state of the blocks under way
  Bytes copies = 0;         ///< records of the copies of the ward's versions
  [[nodiscard]] Bytes all() const noexcept;
};

/// Returns the bytes of a log's header, which are the same in every log.
[[nodiscard]] Bytes snapshot_header_bytes() noexcept;

/// Returns the bytes of one mark, which ends with the losses of `losses` ranks and micro-batches.
[[nodiscard]] Bytes snapshot_mark_bytes(std::int64_t losses) noexcept;

/// Returns the bytes by which the log knows one version of the ward: a mark, and a checksum of each
/// chunk.
[[nodiscard]] Bytes copy_record_bytes(std::int64_t chunks) noexcept;

/// Returns the losses in a mark: every rank's of each micro-batch, and one number more.
[[nodiscard]] std::int64_t snapshot_losses(const Plan& plan) noexcept;

/// Returns the blocks of a shard.
[[nodiscard]] std::int64_t redo_blocks(std::int64_t elements) noexcept;

/// Returns the size of the log of `blocks` blocks and `chunks` chunks; 0 where the plan takes no
/// snapshots.
[[nodiscard]] SnapshotLogSize snapshot_log_size(const Plan& plan, std::int64_t blocks,
                                                std::int64_t chunks) noexcept;

/// Returns the size of the log of a program's chunks; 0 where the plan takes no snapshots.
[[nodiscard]] SnapshotLogSize snapshot_log_size(const Program& program, const Plan& plan) noexcept;

}  // namespace athanor
