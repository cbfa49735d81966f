// SPDX-License-Identifier: Apache-2.0
// MemoryPools finds optimizer state, parameters and gradients in memory, in a buffer that they pass
// through, or in the file. The file and state buffers hold, in this order, whatever a chunk does
// not hold in memory: parameters (in fp32 they are the master, in bf16 the upper half of it), the
// lower half of a split master, the moments with their scales, and the gradient. Stream buffers are
// laid out as sim/lowering/static_memory.hpp says.
#include "executor/cpu/split_master.hpp"
#include "executor/memory/memory_pools.hpp"
#include "sim/model/program.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

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

/// Start of a part that is one array in fp32.
float* whole_part(const AdamStateView& state, StatePart part) {
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

BFloat16Bits* bf16_moment(const AdamStateView& state, StatePart part) {
  return part == StatePart::FirstMoment ? state.first_moment_bf16 : state.second_moment_bf16;
}

std::uint8_t* int8_moment(const AdamStateView& state, StatePart part) {
  return part == StatePart::FirstMoment ? state.first_moment_int8 : state.second_moment_int8;
}

/// Address of an element; null in an array that is null.
template <typename Value>
Value* element_of(Value* array, std::int64_t element) {
  return array == nullptr ? nullptr : array + element;
}

constexpr Bytes kRestBytes = sizeof(std::int16_t);  ///< lower half of a split master

Bytes scale_bytes(std::int64_t elements) { return elements / kMomentBlock * kMomentScaleBytes; }

}  // namespace

UpdateMemory MemoryPools::update_memory(const Operation& adam, std::int64_t steps) const {
  if (adam.state_buffer >= 0 && adam.lane != Lane::CpuAdam) return stream_buffer(adam);
  const ChunkMemory& memory = chunk(adam.unit, adam.chunk);
  UpdateMemory update{memory.state_after(steps), memory.state_after(steps + 1), memory.gradient,
                      memory.old_parameters};
  if (adam.kind == OpKind::AdamRollback && memory.old_parameters != nullptr) {
    update.from.parameters = std::exchange(update.old_parameters, nullptr);
  }
  if (adam.staging_buffer >= 0) update.gradient = gradient_of(adam);
  if (adam.state_buffer < 0) return update;
  std::byte* const buffer = state_buffers_[index(adam.state_buffer)];
  if (memory.file_gradient_offset >= 0) update.gradient = buffer + memory.file_gradient_offset;
  update.from = update.to = state_in_buffer(memory, buffer);
  return update;
}

UpdateMemory MemoryPools::stream_buffer(const Operation& op) const {
  const std::int64_t elements = chunk(op.unit, op.chunk).elements;
  std::byte* const buffer = stream_buffers_[static_cast<std::size_t>(op.state_buffer)];
  std::byte* const moments = buffer + elements * kStateBytes;
  AdamStateView view;
  if (splits_master()) {
    view.parameters = reinterpret_cast<BFloat16Bits*>(buffer);
    view.rests = reinterpret_cast<std::int16_t*>(buffer) + elements;
  } else {
    view.master = reinterpret_cast<float*>(buffer);
  }
  set_moments(view, moments, elements);
  return {view, view, moments + athanor::moment_bytes(adam_state_, elements)};
}

AdamStateView MemoryPools::state_in_buffer(const ChunkMemory& chunk, std::byte* buffer) const {
  const auto at = [&](StatePart part) { return buffer + offset_of(chunk, part); };
  AdamStateView state = chunk.state;
  if (splits_master()) {
    if (chunk.file_parameter_bytes > 0) state.parameters = reinterpret_cast<BFloat16Bits*>(buffer);
    state.rests = reinterpret_cast<std::int16_t*>(at(StatePart::Master));
  } else if (chunk.file_parameter_bytes > 0) {
    state.master = reinterpret_cast<float*>(buffer);
  }
  set_moments(state, at(StatePart::FirstMoment), chunk.elements);
  return state;
}

void MemoryPools::set_moments(AdamStateView& state, std::byte* moments,
                              std::int64_t elements) const {
  std::byte* const second = moments + elements * moment_bytes_;
  switch (adam_state_) {
    case AdamState::Float32:
      state.first_moment = reinterpret_cast<float*>(moments);
      state.second_moment = reinterpret_cast<float*>(second);
      return;
    case AdamState::BFloat16:
      state.first_moment_bf16 = reinterpret_cast<BFloat16Bits*>(moments);
      state.second_moment_bf16 = reinterpret_cast<BFloat16Bits*>(second);
      return;
    case AdamState::Int8:
      break;
  }
  state.first_moment_int8 = reinterpret_cast<std::uint8_t*>(moments);
  state.second_moment_int8 = reinterpret_cast<std::uint8_t*>(second);
  state.scales = reinterpret_cast<MomentScales*>(second + elements);
}

Bytes MemoryPools::offset_of(const ChunkMemory& chunk, StatePart part) const {
  if (part == StatePart::Master) return splits_master() ? chunk.file_parameter_bytes : 0;
  const Bytes rests = splits_master() ? kRestBytes : 0;
  const Bytes first = chunk.file_parameter_bytes + chunk.elements * rests;
  return part == StatePart::FirstMoment ? first : first + chunk.elements * moment_bytes_;
}

const std::byte* MemoryPools::fetched_from(const Operation& fetch, std::int64_t steps) const {
  if (fetch.staging_buffer >= 0) return parameter_buffers_[index(fetch.staging_buffer)];
  return chunk(fetch.unit, fetch.chunk).host_parameters_after(steps);
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

void MemoryPools::read_state(const Operation& op) const {
  file_->read(chunk(op.unit, op.chunk).file_offset,
              {state_buffers_[index(op.state_buffer)], index(op.bytes)});
}

void MemoryPools::write_state(const Operation& op) const {
  file_->write(chunk(op.unit, op.chunk).file_offset,
               {state_buffers_[index(op.state_buffer)], index(op.bytes)});
}

void MemoryPools::read_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                            std::int64_t skip, std::span<float> to, Device& device) const {
  if (part == StatePart::Master && splits_master()) {
    return read_split_master(chunk, steps, skip, to, device);
  }
  if (part != StatePart::Master && has_bf16_moments()) {
    return read_bf16_moment(chunk, part, steps, skip, to, device);
  }
  if (part != StatePart::Master && has_int8_moments()) {
    return read_int8_moment(chunk, part, steps, skip, to, device);
  }
  read_from(element_of(whole_part(chunk.state_after(steps), part), skip),
            chunk.file_offset + offset_of(chunk, part) + skip * kStateBytes,
            std::as_writable_bytes(to), device);
}

void MemoryPools::read_split_master(const ChunkMemory& chunk, std::int64_t steps, std::int64_t skip,
                                    std::span<float> to, Device& device) const {
  const AdamStateView& state = chunk.state_after(steps);
  const Bytes skipped = skip * kRestBytes;
  std::vector<BFloat16Bits> parameters(to.size());
  std::vector<std::int16_t> rests(to.size());
  read_from(element_of(state.parameters, skip), chunk.file_offset + skipped,
            std::as_writable_bytes(std::span(parameters)), device);
  read_from(element_of(state.rests, skip),
            chunk.file_offset + offset_of(chunk, StatePart::Master) + skipped,
            std::as_writable_bytes(std::span(rests)), device);
  join_masters(parameters, rests, to, memory_threads());
}

void MemoryPools::read_bf16_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                                   std::int64_t skip, std::span<float> to, Device& device) const {
  std::vector<BFloat16Bits> moments(to.size());
  read_from(element_of(bf16_moment(chunk.state_after(steps), part), skip),
            chunk.file_offset + offset_of(chunk, part) + skip * moment_bytes_,
            std::as_writable_bytes(std::span(moments)), device);
  std::ranges::transform(moments, to.begin(), widen_bf16);
}

void MemoryPools::write_bf16_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                                    std::int64_t skip, std::span<const float> from,
                                    Device& device) const {
  std::vector<BFloat16Bits> moments(from.size());
  std::ranges::transform(from, moments.begin(), round_to_bf16);
  write_to(element_of(bf16_moment(chunk.state_after(steps), part), skip),
           chunk.file_offset + offset_of(chunk, part) + skip * moment_bytes_,
           std::as_bytes(std::span(moments)), device);
}

Bytes MemoryPools::scales_offset(const ChunkMemory& chunk, std::int64_t block) const {
  return chunk.file_offset + offset_of(chunk, StatePart::SecondMoment) + chunk.elements +
         block * kMomentScaleBytes;
}

void MemoryPools::read_scales(const ChunkMemory& chunk, std::int64_t steps, std::int64_t block,
                              std::span<MomentScales> to, Device& device) const {
  read_from(element_of(chunk.state_after(steps).scales, block), scales_offset(chunk, block),
            std::as_writable_bytes(to), device);
}

/// Reads whole blocks, since a checkpoint may begin anywhere.
void MemoryPools::read_int8_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                                   std::int64_t skip, std::span<float> to, Device& device) const {
  const std::int64_t block = skip / kMomentBlock, first = block * kMomentBlock;
  const std::int64_t whole = round_up(skip + std::ssize(to), kMomentBlock) - first;
  std::vector<std::uint8_t> codes(index(whole));
  std::vector<MomentScales> scales(index(whole / kMomentBlock));
  std::vector<float> moments(index(whole));
  read_from(element_of(int8_moment(chunk.state_after(steps), part), first),
            chunk.file_offset + offset_of(chunk, part) + first,
            std::as_writable_bytes(std::span(codes)), device);
  read_scales(chunk, steps, block, scales, device);
  const bool is_first = part == StatePart::FirstMoment;
  (is_first ? decode_first_moments : decode_second_moments)(codes, scales.data(), moments.data());
  std::copy_n(moments.begin() + (skip - first), to.size(), to.begin());
}

void MemoryPools::write_int8_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                                    std::int64_t skip, std::span<const float> from,
                                    Device& device) const {
  assert(skip % kMomentBlock == 0 && std::ssize(from) % kMomentBlock == 0);
  const std::int64_t block = skip / kMomentBlock;
  std::vector<std::uint8_t> codes(from.size());
  std::vector<MomentScales> scales(from.size() / kMomentBlock);
  read_scales(chunk, steps, block, scales, device);  // the other moment keeps its own
  const bool is_first = part == StatePart::FirstMoment;
  (is_first ? encode_first_moments : encode_second_moments)(from, codes.data(), scales.data());
  const AdamStateView& state = chunk.state_after(steps);
  write_to(element_of(int8_moment(state, part), skip),
           chunk.file_offset + offset_of(chunk, part) + skip, std::as_bytes(std::span(codes)),
           device);
  write_to(element_of(state.scales, block), scales_offset(chunk, block),
           std::as_bytes(std::span(scales)), device);
}

void MemoryPools::write_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                             std::int64_t skip, std::span<const float> from, Device& device) const {
  assert(skip + std::ssize(from) <= chunk.elements);
  if (part == StatePart::Master) return write_master(chunk, steps, skip, from, device);
  if (has_bf16_moments()) return write_bf16_moment(chunk, part, steps, skip, from, device);
  if (has_int8_moments()) return write_int8_moment(chunk, part, steps, skip, from, device);
  write_to(element_of(whole_part(chunk.state_after(steps), part), skip),
           chunk.file_offset + offset_of(chunk, part) + skip * kStateBytes, std::as_bytes(from),
           device);
}

void MemoryPools::write_master(const ChunkMemory& chunk, std::int64_t steps, std::int64_t skip,
                               std::span<const float> from, Device& device) const {
  std::span<const std::byte> parameters = std::as_bytes(from);
  // Without initial values: clearing them would take as long as splitting.
  std::unique_ptr<BFloat16Bits[]> rounded;
  if (splits_master()) {
    rounded = std::make_unique_for_overwrite<BFloat16Bits[]>(from.size());
    const auto rests = std::make_unique_for_overwrite<std::int16_t[]>(from.size());
    const std::span<const BFloat16Bits> upper(rounded.get(), from.size());
    const std::span<const std::int16_t> lower(rests.get(), from.size());
    split_masters(from, {rounded.get(), from.size()}, {rests.get(), from.size()}, memory_threads());
    write_to(element_of(chunk.state_after(steps).rests, skip),
             chunk.file_offset + offset_of(chunk, StatePart::Master) + skip * kRestBytes,
             std::as_bytes(lower), device);
    parameters = std::as_bytes(upper);
  }
  for (std::byte* const home : {chunk.host_parameters_after(steps), chunk.device_parameters}) {
    if (home != nullptr) {
      device.copy_now(home + skip * element_bytes_, parameters.data(), std::ssize(parameters));
    }
  }
  if (chunk.file_parameter_bytes > 0) {
    write_to(nullptr, chunk.file_offset + skip * element_bytes_, parameters, device);
  }
}

void MemoryPools::clear_moments(const ChunkMemory& chunk, std::int64_t steps,
                                Device& device) const {
  const AdamStateView& state = chunk.state_after(steps);
  std::vector<float> zeros;
  for (const StatePart part : {StatePart::FirstMoment, StatePart::SecondMoment}) {
    void* const memory = has_int8_moments()   ? static_cast<void*>(int8_moment(state, part))
                         : has_bf16_moments() ? static_cast<void*>(bf16_moment(state, part))
                                              : static_cast<void*>(whole_part(state, part));
    if (memory != nullptr) {
      device.clear_now(memory, chunk.elements * moment_bytes_);
    } else {
      zeros.resize(index(chunk.elements));
      write_part(chunk, part, steps, 0, zeros, device);
    }
  }
  if (state.scales != nullptr) device.clear_now(state.scales, scale_bytes(chunk.elements));
}

void MemoryPools::read_from(const void* memory, Bytes offset, std::span<std::byte> to,
                            Device& device) const {
  if (memory != nullptr) return device.copy_now(to.data(), memory, std::ssize(to));
  const AlignedBlock block(offset, std::ssize(to));
  file_->read(block.offset, block.bytes());
  std::memcpy(to.data(), block.memory.get() + block.inside, to.size());
}

void MemoryPools::write_to(void* memory, Bytes offset, std::span<const std::byte> from,
                           Device& device) const {
  if (memory != nullptr) return device.copy_now(memory, from.data(), std::ssize(from));
  const AlignedBlock block(offset, std::ssize(from));
  file_->read(block.offset, block.bytes());
  std::memcpy(block.memory.get() + block.inside, from.data(), from.size());
  file_->write(block.offset, block.bytes());
}

}  // namespace athanor
