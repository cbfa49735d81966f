// SPDX-License-Identifier: Apache-2.0
// The redo log of one rank: it lets a step that was under way when the job was killed be finished
// from the gradients, to the same bits.
#pragma once

#include "executor/memory/memory_pools.hpp"
#include "executor/snapshot/redo_format.hpp"
#include "sim/lowering/redo_memory.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Identity of the run and the rank that a log belongs to.
struct RedoIdentity {
  std::string run;
  int rank = 0, world_size = 1;
  std::uint64_t layout = 0;  ///< layout_hash
  Bytes bytes = 0;           ///< size of the shared memory
};

/// Hash of what decides where each number of a rank's state lies.
[[nodiscard]] std::uint64_t layout_hash(const Program& program, const Plan& plan);

/// Places of one mark in the log, to which lanes copy.
struct RedoMarkPlace {
  std::atomic<std::int64_t>* steps = nullptr;
  AdamCoefficients* coefficients = nullptr;
  ClippingResult* clipping = nullptr;
  std::span<double> losses;
};

class RedoLog {
 public:
  /// Lies in the memory of `pools`, which outlive it.
  RedoLog(const MemoryPools& pools, const Program& program, const Plan& plan);

  /// Says that the state is not whole, before it is loaded.
  void spoil() noexcept;
  /// Says that the state after `steps` steps is whole. `text` is for whoever resumes the run.
  /// Throws Error where it is too long.
  void begin(const RedoIdentity& identity, const std::string& text, std::int64_t steps);

  /// Place of the mark of the step after which `steps` are done.
  [[nodiscard]] RedoMarkPlace mark(std::int64_t steps) const;
  /// Losses of the mark, empty where it is not there.
  [[nodiscard]] std::span<const double> losses(std::int64_t steps) const;

  /// Does an update on the host, block by block. A block that has it already stays as it is.
  void update(std::int32_t unit, std::int32_t chunk, const AdamWork& work);

  /// Makes the update of one chunk whole, from its mark.
  using Redo = std::function<void(std::int32_t unit, std::int32_t chunk, const RedoMark& mark)>;
  /// Brings all state to `steps` steps after a kill, and forgets what came later. It may itself be
  /// killed and called again. Throws Error where the log does not lead there.
  void roll_forward(std::int64_t steps, const Redo& redo);

 private:
  /// One shard: the blocks of its state have numbers from `first_block` on.
  struct Shard {
    AdamStateView state;
    std::int64_t elements = 0, first_block = 0;
  };
  struct Block {
    AdamStateView state;
    std::int64_t elements = 0;
  };

  [[nodiscard]] RedoHeader& header() const noexcept;
  [[nodiscard]] RedoMark& mark_of(std::int64_t steps) const noexcept;
  [[nodiscard]] std::atomic<std::int64_t>& version(std::int64_t block) const noexcept;
  [[nodiscard]] std::byte* slot(std::int64_t index) const noexcept;
  [[nodiscard]] static Block block_at(const Shard& shard, std::int64_t index);
  [[nodiscard]] Block block_of(std::int64_t block) const;
  [[nodiscard]] std::int64_t take_slot();
  void update_block(const Shard& shard, std::int64_t index, const AdamWork& work);
  void undo_blocks(std::int64_t steps) const;
  void check_versions(std::int64_t steps) const;

  std::byte* memory_;
  RedoLogSize size_;
  std::int64_t losses_;
  std::vector<std::vector<Shard>> shards_;      ///< [unit][chunk]
  std::unique_ptr<std::atomic<bool>[]> taken_;  ///< [slot]
};

}  // namespace athanor
