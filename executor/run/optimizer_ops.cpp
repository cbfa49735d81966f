// SPDX-License-Identifier: Apache-2.0
#include "executor/run/optimizer_ops.hpp"

#include <algorithm>
#include <span>

namespace athanor {
namespace {

constexpr std::size_t kMatrixDimensions = 2;

template <typename T>
std::span<T> part(T* base, std::int64_t begin, std::int64_t count) {
  return {base + begin, static_cast<std::size_t>(count)};
}

template <typename Function>
void with_gradient(const RankContext& context, const ChunkMemory& memory, Function&& function) {
  if (context.program.gradient_dtype == DataType::Float32) {
    function(reinterpret_cast<const float*>(memory.gradient));
  } else {
    function(reinterpret_cast<const BFloat16Bits*>(memory.gradient));
  }
}

}  // namespace

OptimizerOps::OptimizerOps(const RankContext& context, const Architecture& architecture,
                           const OptimizerOptions& options)
    : context_(context), options_(options), segments_(architecture.units.size()) {
  for (std::size_t unit = 0; unit < architecture.units.size(); ++unit) {
    for (const ChunkMemory& memory : context.memory.chunks(static_cast<std::int32_t>(unit))) {
      segments_[unit].push_back(
          segments_of(architecture.units[unit], context.program.layouts[unit], memory));
    }
  }
}

std::vector<OptimizerOps::Segment> OptimizerOps::segments_of(const Unit& unit,
                                                             const UnitLayout& layout,
                                                             const ChunkMemory& memory) const {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const std::int64_t first = layout.parameter_offsets[i];
    const std::int64_t begin = std::max(first, memory.offset);
    const std::int64_t end =
        std::min(first + unit.parameters[i].num_elements(), memory.offset + memory.elements);
    if (begin >= end) continue;
    const bool decays = unit.parameters[i].shape.size() >= kMatrixDimensions;
    segments.push_back({begin - memory.offset, end - begin, decays});
  }
  return segments;
}

int OptimizerOps::threads_of(const Operation& op) const {
  return op.lane == Lane::CpuAdam ? context_.program.cpu_adam_threads
                                  : context_.plan.compute_threads;
}

void OptimizerOps::square_sum(std::int32_t operation, StepState& state) const {
  const auto index = static_cast<std::size_t>(operation);
  const ChunkMemory& memory = context_.chunk_memory(context_.program.operations[index]);
  with_gradient(context_, memory, [&](const auto* gradient) {
    state.square_sums[index] = athanor::square_sum(part(gradient, 0, memory.elements));
  });
}

void OptimizerOps::adam(const Operation& op, const StepState& state) const {
  const ChunkMemory& memory = context_.chunk_memory(op);
  const int threads = threads_of(op);
  AdamCoefficients coefficients{.learning_rate = state.learning_rate,
                                .beta1 = static_cast<float>(options_.beta1),
                                .beta2 = static_cast<float>(options_.beta2),
                                .epsilon = static_cast<float>(options_.epsilon),
                                .gradient_scale = state.gradient_scale,
                                .step = state.step + 1};
  const auto& segments =
      segments_[static_cast<std::size_t>(op.unit)][static_cast<std::size_t>(op.chunk)];
  for (const Segment& s : segments) {
    coefficients.weight_decay = s.decays ? static_cast<float>(options_.weight_decay) : 0.0F;
    const AdamState shard{part(memory.master, s.begin, s.elements),
                          part(memory.first_moment, s.begin, s.elements),
                          part(memory.second_moment, s.begin, s.elements)};
    with_gradient(context_, memory, [&](const auto* gradient) {
      adamw(shard, part(gradient, s.begin, s.elements), coefficients, threads);
    });
  }
  if (context_.program.dtype == DataType::BFloat16) {
    std::byte* const to =
        memory.host_parameters != nullptr ? memory.host_parameters : memory.device_parameters;
    convert_to_bf16(part<const float>(memory.master, 0, memory.elements),
                    part(reinterpret_cast<BFloat16Bits*>(to), 0, memory.elements), threads);
  }
}

}  // namespace athanor
