// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/snapshot_memory.hpp"

#include "sim/lowering/static_memory.hpp"

namespace athanor {
namespace {

constexpr Bytes kHeader = 64 * kKiB;
constexpr Bytes kMarkHead = 128;
constexpr Bytes kLine = 64;
constexpr Bytes kPage = 4 * kKiB;

}  // namespace

Bytes SnapshotLogSize::all() const noexcept {
  return round_up(header + marks + copies + block_steps + undo, kPage);
}

Bytes snapshot_header_bytes() noexcept { return kHeader; }

Bytes snapshot_mark_bytes(std::int64_t losses) noexcept {
  return kMarkHead + round_up(losses * static_cast<Bytes>(sizeof(double)), kLine);
}

std::int64_t snapshot_losses(const Plan& plan) noexcept {
  return plan.world_size * (plan.accumulation + 1);
}

std::int64_t redo_blocks(std::int64_t elements) noexcept {
  return (elements + kRedoBlockElements - 1) / kRedoBlockElements;
}

Bytes copy_record_bytes(std::int64_t chunks) noexcept {
  return kLine + round_up(chunks * static_cast<Bytes>(sizeof(std::uint64_t)), kLine);
}

SnapshotLogSize snapshot_log_size(const Plan& plan, std::int64_t blocks,
                                  std::int64_t chunks) noexcept {
  if (plan.snapshot == Snapshot::None) return {};
  SnapshotLogSize size{.header = kHeader,
                       .marks = kSnapshotMarks * snapshot_mark_bytes(snapshot_losses(plan))};
  if (plan.snapshot_copies > 1) size.copies = kKeptVersions * copy_record_bytes(chunks);
  if (plan.snapshot != Snapshot::Redo) return size;
  size.blocks = blocks;
  size.block_steps = round_up(blocks * static_cast<Bytes>(sizeof(std::int64_t)), kLine);
  size.undo = kRedoSlots * (kLine + kRedoBlockElements * kUpdatedBytes);
  return size;
}

SnapshotLogSize snapshot_log_size(const Program& program, const Plan& plan) noexcept {
  std::int64_t blocks = 0, chunks = 0;
  for (std::size_t unit = 0; unit < program.layouts.size(); ++unit) {
    chunks += std::ssize(program.layouts[unit].chunks);
    for (const Chunk& chunk : program.layouts[unit].chunks) {
      blocks += redo_blocks(owned_elements(chunk, plan.units[unit].sharding, program.world_size));
    }
  }
  return snapshot_log_size(plan, blocks, chunks);
}

}  // namespace athanor
