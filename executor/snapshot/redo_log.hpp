// SPDX-License-Identifier: Apache-2.0
// The redo log of one rank: it lets a step that was under way when the job was killed be finished
// from the gradients, to the same bits.
#pragma once

#include "executor/memory/memory_pools.hpp"
#include "executor/snapshot/snapshot_log.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace athanor {

class RedoLog {
 public:
  /// Lies in the memory of `pools` behind `log`, both of which outlive it.
  RedoLog(SnapshotLog& log, const MemoryPools& pools, const Program& program, const Plan& plan);

  /// Says that every block has `steps` steps, before the log says so of the state.
  void begin(std::int64_t steps) noexcept;

  /// Does an update on the host, block by block. A block that has it already stays as it is.
  void update(std::int32_t unit, std::int32_t chunk, const AdamWork& work);

  /// Makes the update of one chunk whole, from its mark.
  using Redo = std::function<void(std::int32_t unit, std::int32_t chunk, const SnapshotMark& mark)>;
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

  [[nodiscard]] std::atomic<std::int64_t>& steps_of(std::int64_t block) const noexcept;
  [[nodiscard]] std::byte* slot(std::int64_t index) const noexcept;
  [[nodiscard]] static Block block_at(const Shard& shard, std::int64_t index);
  [[nodiscard]] Block block_of(std::int64_t block) const;
  [[nodiscard]] std::int64_t take_slot();
  void update_block(const Shard& shard, std::int64_t index, const AdamWork& work);
  void undo_blocks(std::int64_t steps) const;
  void check_blocks(std::int64_t steps) const;

  SnapshotLog& log_;
  std::byte* memory_;
  SnapshotLogSize size_;
  std::vector<std::vector<Shard>> shards_;      ///< [unit][chunk]
  std::unique_ptr<std::atomic<bool>[]> taken_;  ///< [slot]
};

}  // namespace athanor
