// SPDX-License-Identifier: Apache-2.0
#include "executor/run/transfer_ops.hpp"

#include "executor/lanes/adam.hpp"
#include "executor/lanes/host_copy.hpp"

#include <algorithm>
#include <span>

namespace athanor {
namespace {

template <typename T>
std::span<T> elements_at(const std::byte* data, std::int64_t count) {
  return {reinterpret_cast<T*>(const_cast<std::byte*>(data)), static_cast<std::size_t>(count)};
}

}  // namespace

void fetch_shard(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  std::byte* const unit = context.memory.parameters(op.unit, op.slot);
  host_copy(unit + context.bytes_of(memory.offset), memory.host_parameters,
            context.bytes_of(memory.elements));
}

void copy_gradient_to_host(const RankContext& context, const Operation& op) {
  store_gradient(context, op);
}

void copy_parameters_to_device(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  host_copy(memory.device_parameters, memory.host_parameters, context.bytes_of(memory.elements));
}

void store_gradient(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  const std::byte* const from =
      context.memory.gradients(op.unit, op.gradient_buffer) + context.bytes_of(memory.offset);
  const bool same_type = context.program.gradient_dtype == context.program.dtype;
  if (same_type && !op.accumulate) {
    host_copy(memory.gradient, from, context.bytes_of(memory.elements));
    return;
  }
  const std::span<float> sum = elements_at<float>(memory.gradient, memory.elements);
  if (!op.accumulate) std::fill(sum.begin(), sum.end(), 0.0F);
  if (context.program.dtype == DataType::Float32) {
    accumulate(sum, elements_at<const float>(from, memory.elements));
  } else {
    accumulate(sum, elements_at<const BFloat16Bits>(from, memory.elements));
  }
}

}  // namespace athanor
