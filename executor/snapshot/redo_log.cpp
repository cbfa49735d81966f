// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/redo_log.hpp"

#include "executor/backend/host_device.hpp"
#include "executor/cpu/parallel_blocks.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace athanor {
namespace {

constexpr std::size_t kSlotHead = 64;

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Calls `copy(array of the state, its bytes)` with every array that an update writes.
template <typename Copy>
void for_each_array(const AdamStateView& state, std::int64_t elements, const Copy& copy) {
  const auto call = [&]<typename Value>(Value* array) {
    copy(reinterpret_cast<std::byte*>(array), size(elements) * sizeof(Value));
  };
  if (state.is_split()) {
    call(state.parameters);
    call(state.rests);
  } else {
    call(state.master);
  }
  call(state.first_moment);
  call(state.second_moment);
}

}  // namespace

RedoLog::RedoLog(SnapshotLog& log, const MemoryPools& pools, const Program& program,
                 const Plan& plan)
    : log_(log),
      memory_(pools.snapshot_log()),
      size_(snapshot_log_size(program, plan)),
      taken_(std::make_unique<std::atomic<bool>[]>(size(kRedoSlots))) {
  static_assert(sizeof(RedoSlot) <= kSlotHead);
  assert(plan.snapshot == Snapshot::Redo);
  std::int64_t blocks = 0;
  for (std::size_t unit = 0; unit < program.layouts.size(); ++unit) {
    std::vector<Shard>& shards = shards_.emplace_back();
    for (const ChunkMemory& chunk : pools.chunks(static_cast<std::int32_t>(unit))) {
      shards.push_back({chunk.state, chunk.elements, blocks});
      blocks += redo_blocks(chunk.elements);
    }
  }
  assert(blocks == size_.blocks);
}

std::atomic<std::int64_t>& RedoLog::steps_of(std::int64_t block) const noexcept {
  auto* const steps =
      reinterpret_cast<std::atomic<std::int64_t>*>(memory_ + size_.header + size_.marks);
  return steps[block];
}

std::byte* RedoLog::slot(std::int64_t index) const noexcept {
  return memory_ + size_.header + size_.marks + size_.block_steps +
         index * (size_.undo / kRedoSlots);
}

void RedoLog::begin(std::int64_t steps) noexcept {
  for (std::int64_t block = 0; block < size_.blocks; ++block) steps_of(block) = steps;
  for (std::int64_t i = 0; i < kRedoSlots; ++i) reinterpret_cast<RedoSlot*>(slot(i))->block = 0;
  store_barrier();
}

std::int64_t RedoLog::take_slot() {
  // A thread comes back to the slot whose memory its core has.
  thread_local std::int64_t last = 0;
  for (std::int64_t i = last % kRedoSlots;; i = (i + 1) % kRedoSlots) {
    if (!taken_[size(i)].exchange(true, std::memory_order_acquire)) return last = i;
  }
}

void RedoLog::update(std::int32_t unit, std::int32_t chunk, const AdamWork& work) {
  const Shard& shard = shards_.at(size(unit)).at(size(chunk));
  AdamWork alone = work;
  alone.threads = 1;
  const int threads = std::min(work.threads, static_cast<int>(kRedoSlots));
  parallel_tasks(redo_blocks(shard.elements), threads,
                 [&](std::int64_t index) { update_block(shard, index, alone); });
}

/// The order of these stores is the protocol: at every instant the block is old, or new, or its old
/// state is in a slot that names it.
void RedoLog::update_block(const Shard& shard, std::int64_t index, const AdamWork& work) {
  const std::int64_t block = shard.first_block + index;
  std::atomic<std::int64_t>& done = steps_of(block);
  if (done == work.coefficients.step) return;
  assert(done == work.coefficients.step - 1);
  const std::int64_t taken = take_slot();
  std::byte* const place = slot(taken);
  RedoSlot& head = *reinterpret_cast<RedoSlot*>(place);
  const Block old = block_at(shard, index);
  std::byte* to = place + kSlotHead;
  for_each_array(old.state, old.elements, [&](const std::byte* array, std::size_t bytes) {
    std::memcpy(to, array, bytes);
    to += bytes;
  });
  store_barrier();
  head.block.store(block + 1, std::memory_order_relaxed);
  store_barrier();
  const std::int64_t begin = index * kRedoBlockElements;
  update_elements(work, begin, begin + old.elements);
  store_barrier();
  done.store(work.coefficients.step, std::memory_order_relaxed);
  store_barrier();
  head.block.store(0, std::memory_order_relaxed);
  taken_[size(taken)].store(false, std::memory_order_release);
}

RedoLog::Block RedoLog::block_at(const Shard& shard, std::int64_t index) {
  const std::int64_t begin = index * kRedoBlockElements;
  return {shard.state.starting_at(begin), std::min(kRedoBlockElements, shard.elements - begin)};
}

RedoLog::Block RedoLog::block_of(std::int64_t block) const {
  for (const std::vector<Shard>& shards : shards_) {
    for (const Shard& shard : shards) {
      const std::int64_t index = block - shard.first_block;
      if (index >= 0 && index < redo_blocks(shard.elements)) return block_at(shard, index);
    }
  }
  throw Error(fmt::format("the redo log names block {}, which this plan does not have", block));
}

/// Puts back the old state of blocks whose update to `steps` was cut off.
void RedoLog::undo_blocks(std::int64_t steps) const {
  for (std::int64_t i = 0; i < kRedoSlots; ++i) {
    std::byte* const place = slot(i);
    RedoSlot& head = *reinterpret_cast<RedoSlot*>(place);
    const std::int64_t block = head.block - 1;
    if (block < 0) continue;
    if (block >= size_.blocks) throw Error("the redo log's undo slots are damaged");
    if (steps_of(block) != steps) {
      const Block torn = block_of(block);
      const std::byte* from = place + kSlotHead;
      for_each_array(torn.state, torn.elements, [&](std::byte* array, std::size_t bytes) {
        std::memcpy(array, from, bytes);
        from += bytes;
      });
      store_barrier();
    }
    head.block.store(0);
  }
}

void RedoLog::check_blocks(std::int64_t steps) const {
  const bool may_redo = log_.read_mark(steps).steps == steps;
  for (std::int64_t block = 0; block < size_.blocks; ++block) {
    const std::int64_t done = steps_of(block);
    if (done == steps || (may_redo && done == steps - 1)) continue;
    throw Error(fmt::format("block {} of the snapshot is of step {}, where step {} was expected",
                            block, done, steps));
  }
}

void RedoLog::roll_forward(std::int64_t steps, const Redo& redo) {
  check_blocks(steps);
  undo_blocks(steps);
  for (std::size_t unit = 0; unit < shards_.size(); ++unit) {
    for (std::size_t chunk = 0; chunk < shards_[unit].size(); ++chunk) {
      const Shard& shard = shards_[unit][chunk];
      bool is_whole = true;
      for (std::int64_t i = 0; i < redo_blocks(shard.elements); ++i) {
        is_whole &= steps_of(shard.first_block + i) == steps;
      }
      if (is_whole) continue;
      redo(static_cast<std::int32_t>(unit), static_cast<std::int32_t>(chunk),
           log_.read_mark(steps));
    }
  }
  check_blocks(steps);
  // Gradients of a later step are about to be overwritten, here or by another rank.
  log_.forget_after(steps);
}

}  // namespace athanor
