// SPDX-License-Identifier: Apache-2.0
#include "executor/train/transfer_ops.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

namespace athanor {
namespace {

void copy_state(const RankContext& context, const Operation& op, const AdamStateView& to,
                const AdamStateView& from) {
  const std::int64_t elements = context.chunk_memory(op).elements;
  for_each_state_array(to, from, elements,
                       [&]<typename Value>(Value* target, const Value* source, std::int64_t count) {
                         context.device.copy(op.lane, target, source,
                                             count * static_cast<Bytes>(sizeof(Value)));
                       });
}

}  // namespace

void fetch_shard(const RankContext& context, const Operation& op, std::int64_t steps) {
  const ChunkMemory& memory = context.chunk_memory(op);
  std::byte* const unit = context.memory.parameters(op.unit, op.slot);
  context.device.copy(op.lane, unit + context.bytes_of(memory.place),
                      context.memory.fetched_from(op, steps), context.bytes_of(memory.elements));
}

void copy_output_to_host(const RankContext& context, const Operation& op,
                         const DeviceOutput& output) {
  if (output.bytes > op.bytes) {
    throw Error(fmt::format("{}: its output has {} bytes, but {} in the profile",
                            context.program.unit_names.at(op.unit), output.bytes, op.bytes));
  }
  context.device.copy(op.lane, context.memory.host_output(op), output.memory, output.bytes);
}

void copy_output_to_device(const RankContext& context, const Operation& op,
                           const DeviceOutput& output) {
  context.device.copy(op.lane, output.memory, context.memory.host_output(op), output.bytes);
}

void copy_parameters_to_device(const RankContext& context, const Operation& op,
                               std::int64_t steps) {
  const ChunkMemory& memory = context.chunk_memory(op);
  context.device.copy(op.lane, memory.device_parameters, memory.host_parameters_after(steps),
                      context.bytes_of(memory.elements));
}

void copy_state_to_device(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  const UpdateMemory buffer = context.memory.stream_buffer(op);
  copy_state(context, op, buffer.from, memory.state);
  context.device.copy(op.lane, buffer.gradient, memory.gradient,
                      memory.elements * size_of(context.program.gradient_dtype));
}

void copy_state_to_host(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  copy_state(context, op, memory.state, context.memory.stream_buffer(op).to);
}

void keep_state(const RankContext& context, const Operation& op, std::int64_t steps) {
  const ChunkMemory& memory = context.chunk_memory(op);
  copy_state(context, op, memory.copy_after(steps), memory.state);
}

void add_gradient(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  const std::byte* const gradient =
      context.memory.gradients(op.unit, op.gradient_buffer) + context.bytes_of(memory.place);
  context.device.accumulate(op.lane, context.memory.gradient_sum(op), gradient,
                            context.program.dtype, memory.elements, op.accumulate);
}

void copy_gradient_sum(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  float* const sum = context.memory.gradient_sum(op);
  const Bytes bytes = memory.elements * size_of(context.program.gradient_dtype);
  if (op.lane == Lane::H2D) {
    context.device.copy(op.lane, sum, memory.gradient, bytes);
  } else {
    context.device.copy(op.lane, memory.gradient, sum, bytes);
  }
}

void store_gradient(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  std::byte* const to = context.memory.gradient_of(op);
  const std::byte* const from =
      context.memory.gradients(op.unit, op.gradient_buffer) + context.bytes_of(memory.place);
  const bool same_type = context.program.gradient_dtype == context.program.dtype;
  if (same_type && !op.accumulate) {
    context.device.copy(op.lane, to, from, context.bytes_of(memory.elements));
  } else {
    context.device.accumulate(op.lane, reinterpret_cast<float*>(to), from, context.program.dtype,
                              memory.elements, op.accumulate);
  }
}

}  // namespace athanor
