// SPDX-License-Identifier: Apache-2.0
// Optimizer state of MemoryPools: in memory, in a buffer that it passes through, or in the file.
// There, and in state buffers, the parts that a chunk has no place for in memory follow each other;
// stream buffers are laid out as sim/model/static_memory.hpp says.
#include "executor/run/memory_pools.hpp"
#include "sim/model/program.hpp"

#include <cassert>
#include <cstring>

namespace athanor {
namespace {

/// Whole blocks of the file around some bytes of it, and the same in memory.
struct Window {
  Bytes offset = 0;  ///< in the file
  Bytes inside = 0;  ///< of the bytes asked for
  std::size_t size = 0;
  MemoryBlock memory;

  Window(Bytes begin, Bytes bytes)
      : offset(begin / kFileBlock * kFileBlock),
        inside(begin - offset),
        size(static_cast<std::size_t>(file_blocks(inside + bytes))),
        memory(take_host_memory(static_cast<Bytes>(size))) {}

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory.get(), size}; }
};

/// Place of a part among those that follow each other, in parts.
int position_of(const ChunkMemory& chunk, StatePart part) {
  return static_cast<int>(part) - (chunk.state.master != nullptr ? 1 : 0);
}

Bytes offset_in_file(const ChunkMemory& chunk, StatePart part, std::int64_t skip) {
  return chunk.file_offset + (position_of(chunk, part) * chunk.elements + skip) * kStateBytes;
}

}  // namespace

float* OptimizerState::part(StatePart part) const noexcept {
  switch (part) {
    case StatePart::Master:
      return master;
    case StatePart::FirstMoment:
      return first_moment;
    case StatePart::SecondMoment:
      break;
  }
  return second_moment;
}

UpdateMemory MemoryPools::update_memory(const Operation& adam, std::int64_t steps) const {
  if (adam.state_buffer >= 0 && adam.lane != Lane::CpuAdam) return stream_buffer(adam);
  const ChunkMemory& memory = chunk(adam.unit, adam.chunk);
  UpdateMemory update{memory.state_after(steps), memory.state_after(steps + 1), memory.gradient,
                      memory.rounded};
  if (adam.state_buffer >= 0) update.from = update.to = state_in_file_buffer(adam);
  return update;
}

UpdateMemory MemoryPools::stream_buffer(const Operation& op) const {
  const std::int64_t elements = chunk(op.unit, op.chunk).elements;
  std::byte* const buffer = stream_buffers_[static_cast<std::size_t>(op.state_buffer)];
  auto* const state = reinterpret_cast<float*>(buffer);
  UpdateMemory update;
  update.from = update.to = {state, state + elements, state + 2 * elements};
  update.gradient = buffer + std::ssize(kStateParts) * elements * kStateBytes;
  if (element_bytes_ != kStateBytes) {
    update.rounded =
        reinterpret_cast<BFloat16Bits*>(update.gradient + elements * gradient_element_bytes_);
  }
  return update;
}

OptimizerState MemoryPools::state_in_file_buffer(const Operation& adam) const {
  const ChunkMemory& memory = chunk(adam.unit, adam.chunk);
  auto* const buffer =
      reinterpret_cast<float*>(state_buffers_[static_cast<std::size_t>(adam.state_buffer)]);
  const auto place = [&](StatePart part) {
    const int position = position_of(memory, part);
    return position < 0 ? memory.state.part(part) : buffer + position * memory.elements;
  };
  return {place(StatePart::Master), place(StatePart::FirstMoment), place(StatePart::SecondMoment)};
}

void MemoryPools::read_state(const Operation& op) const {
  file_->read(chunk(op.unit, op.chunk).file_offset,
              {state_buffers_[static_cast<std::size_t>(op.state_buffer)],
               static_cast<std::size_t>(op.bytes)});
}

void MemoryPools::write_state(const Operation& op) const {
  file_->write(chunk(op.unit, op.chunk).file_offset,
               {state_buffers_[static_cast<std::size_t>(op.state_buffer)],
                static_cast<std::size_t>(op.bytes)});
}

void MemoryPools::read_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                            std::int64_t skip, std::span<float> to, Device& device) const {
  const auto bytes = static_cast<Bytes>(to.size_bytes());
  if (const float* const from = chunk.state_after(steps).part(part)) {
    return device.copy_now(to.data(), from + skip, bytes);
  }
  const Window window(offset_in_file(chunk, part, skip), bytes);
  file_->read(window.offset, window.bytes());
  std::memcpy(to.data(), window.memory.get() + window.inside, to.size_bytes());
}

void MemoryPools::write_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                             std::span<const float> from, Device& device) const {
  assert(std::ssize(from) == chunk.elements);
  const auto bytes = static_cast<Bytes>(from.size_bytes());
  if (float* const to = chunk.state_after(steps).part(part)) {
    return device.copy_now(to, from.data(), bytes);
  }
  const Window window(offset_in_file(chunk, part, 0), bytes);
  file_->read(window.offset, window.bytes());
  std::memcpy(window.memory.get() + window.inside, from.data(), from.size_bytes());
  file_->write(window.offset, window.bytes());
}

}  // namespace athanor
