// SPDX-License-Identifier: Apache-2.0
// MemoryPools finds optimizer state, parameters and gradients in memory, in a buffer that they pass
// through, or in the file. The file and state buffers hold, in this order, whatever a chunk does
// not hold in memory: parameters (in fp32 they are the master copy), the parts of the state, and
// the gradient. Stream buffers are laid out as sim/lowering/static_memory.hpp says.
#include "executor/memory/memory_pools.hpp"
#include "sim/model/program.hpp"

#include <cassert>
#include <cstring>

namespace athanor {
namespace {

/// Whole blocks of the file that contain some bytes of it, and memory for them.
struct AlignedBlock {
  Bytes offset = 0;  ///< in the file
  Bytes inside = 0;  ///< offset of the bytes asked for
  std::size_t size = 0;
  MemoryBlock memory;

  AlignedBlock(Bytes begin, Bytes bytes)
      : offset(begin / kFileBlock * kFileBlock),
        inside(begin - offset),
        size(static_cast<std::size_t>(file_blocks(inside + bytes))),
        memory(allocate_host_memory(static_cast<Bytes>(size))) {}

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory.get(), size}; }
};

}  // namespace

float* part_of(const AdamStateView& state, StatePart part) noexcept {
  switch (part) {
    case StatePart::Master:
      return state.master;
    case StatePart::FirstMoment:
      return state.first_moment;
    case StatePart::SecondMoment:
      break;
  }
  return state.second_moment;
}

UpdateMemory MemoryPools::update_memory(const Operation& adam, std::int64_t steps) const {
  if (adam.state_buffer >= 0 && adam.lane != Lane::CpuAdam) return stream_buffer(adam);
  const ChunkMemory& memory = chunk(adam.unit, adam.chunk);
  UpdateMemory update{memory.state_after(steps), memory.state_after(steps + 1), memory.gradient,
                      memory.rounded};
  if (adam.state_buffer < 0) return update;
  std::byte* const buffer = state_buffers_[index(adam.state_buffer)];
  if (adam.staging_buffer >= 0) update.gradient = gradient_of(adam);
  if (memory.file_gradient_offset >= 0) update.gradient = buffer + memory.file_gradient_offset;
  update.from = update.to = state_in_buffer(memory, buffer);
  if (memory.file_parameter_bytes > 0 && element_bytes_ != kStateBytes) {
    update.rounded = reinterpret_cast<BFloat16Bits*>(buffer);
  }
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

AdamStateView MemoryPools::state_in_buffer(const ChunkMemory& chunk, std::byte* buffer) const {
  const auto place = [&](StatePart part) {
    float* const in_memory = part_of(chunk.state, part);
    return in_memory != nullptr ? in_memory
                                : reinterpret_cast<float*>(buffer + offset_of(chunk, part));
  };
  return {place(StatePart::Master), place(StatePart::FirstMoment), place(StatePart::SecondMoment)};
}

Bytes MemoryPools::offset_of(const ChunkMemory& chunk, StatePart part) const {
  const bool master_is_parameters = element_bytes_ == kStateBytes;
  const Bytes before = static_cast<Bytes>(part) - (master_is_parameters ? 1 : 0);
  return before < 0 ? 0 : chunk.file_parameter_bytes + before * chunk.elements * kStateBytes;
}

const std::byte* MemoryPools::fetched_from(const Operation& fetch) const {
  return fetch.staging_buffer < 0 ? chunk(fetch.unit, fetch.chunk).host_parameters
                                  : parameter_buffers_[index(fetch.staging_buffer)];
}

std::byte* MemoryPools::gradient_of(const Operation& op) const {
  return op.staging_buffer < 0 ? chunk(op.unit, op.chunk).gradient
                               : staged_gradients_[index(op.staging_buffer)];
}

void MemoryPools::write_gradient(const Operation& op) const {
  const ChunkMemory& memory = chunk(op.unit, op.chunk);
  file_->write(memory.file_offset + memory.file_gradient_offset,
               {gradient_of(op), index(op.bytes)});
}

void MemoryPools::read_parameters(const Operation& op) const {
  file_->read(chunk(op.unit, op.chunk).file_offset,
              {parameter_buffers_[index(op.staging_buffer)], index(op.bytes)});
}

/// Reads all but the parameters in bf16.
void MemoryPools::read_state(const Operation& op) const {
  const ChunkMemory& memory = chunk(op.unit, op.chunk);
  const Bytes skip = offset_of(memory, StatePart::Master);
  file_->read(memory.file_offset + skip,
              {state_buffers_[index(op.state_buffer)] + skip, index(op.bytes)});
}

void MemoryPools::write_state(const Operation& op) const {
  file_->write(chunk(op.unit, op.chunk).file_offset,
               {state_buffers_[index(op.state_buffer)], index(op.bytes)});
}

void MemoryPools::read_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                            std::int64_t skip, std::span<float> to, Device& device) const {
  const auto bytes = static_cast<Bytes>(to.size_bytes());
  if (const float* const from = part_of(chunk.state_after(steps), part)) {
    return device.copy_now(to.data(), from + skip, bytes);
  }
  const AlignedBlock block(chunk.file_offset + offset_of(chunk, part) + skip * kStateBytes, bytes);
  file_->read(block.offset, block.bytes());
  std::memcpy(to.data(), block.memory.get() + block.inside, to.size_bytes());
}

void MemoryPools::write_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                             std::span<const float> from, Device& device) const {
  assert(std::ssize(from) == chunk.elements);
  if (float* const to = part_of(chunk.state_after(steps), part)) {
    return device.copy_now(to, from.data(), static_cast<Bytes>(from.size_bytes()));
  }
  write_to_file(chunk.file_offset + offset_of(chunk, part), std::as_bytes(from));
}

void MemoryPools::write_file_parameters(const ChunkMemory& chunk,
                                        std::span<const std::byte> from) const {
  assert(std::ssize(from) == chunk.elements * element_bytes_);
  write_to_file(chunk.file_offset, from);
}

void MemoryPools::write_to_file(Bytes offset, std::span<const std::byte> from) const {
  const AlignedBlock block(offset, std::ssize(from));
  file_->read(block.offset, block.bytes());
  std::memcpy(block.memory.get() + block.inside, from.data(), from.size());
  file_->write(block.offset, block.bytes());
}

}  // namespace athanor
