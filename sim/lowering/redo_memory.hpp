// SPDX-License-Identifier: Apache-2.0
// Size of the redo log: what a rank notes beside its state in host memory, so that a step that was
// under way when its processes died can be finished from the gradients. executor/snapshot fills it.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <cstdint>

namespace athanor {

/// Elements of a block: what one thread updates between two notes. Its old state stays in the
/// second-level cache of one core.
inline constexpr std::int64_t kRedoBlockElements = 16 * 1024;

/// Bytes of one element's parameters and optimizer state, whatever their type.
inline constexpr Bytes kUpdatedBytes = 12;

/// Steps whose marks are kept: the main thread reads losses that many steps late at most.
inline constexpr int kRedoMarks = 4;

/// Threads that update at once, at most. It is a constant, so that a plan's memory does not depend
/// on its threads, and any number of them may resume it.
inline constexpr std::int64_t kRedoSlots = 128;

/// Sections of a rank's log, one after the other.
struct RedoLogSize {
  std::int64_t blocks = 0;  ///< number in all chunks
  Bytes header = 0;         ///< identity of the run
  Bytes marks = 0;          ///< constants of the last steps' updates, and losses
  Bytes versions = 0;       ///< steps that each block has
  Bytes undo = 0;           ///< old state of the blocks under way
  [[nodiscard]] Bytes all() const noexcept;
};

/// Returns the bytes of a log's header, which are the same in every log.
[[nodiscard]] Bytes redo_header_bytes() noexcept;

/// Returns the bytes of one mark, which ends with the losses of `losses` ranks and micro-batches.
[[nodiscard]] Bytes redo_mark_bytes(std::int64_t losses) noexcept;

/// Returns the losses in a mark: every rank's of each micro-batch, and one number more.
[[nodiscard]] std::int64_t redo_losses(const Plan& plan) noexcept;

/// Returns the blocks of a shard.
[[nodiscard]] std::int64_t redo_blocks(std::int64_t elements) noexcept;

/// Returns the size of the log of `blocks` blocks; 0 where the plan takes no snapshots.
[[nodiscard]] RedoLogSize redo_log_size(const Plan& plan, std::int64_t blocks) noexcept;

/// Returns the size of the log of a program's chunks; 0 where the plan takes no snapshots.
[[nodiscard]] RedoLogSize redo_log_size(const Program& program, const Plan& plan) noexcept;

}  // namespace athanor
