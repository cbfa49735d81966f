// SPDX-License-Identifier: Apache-2.0
#include "executor/run/collective_ops.hpp"

#include "executor/lanes/host_copy.hpp"
#include "executor/run/transfer_ops.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor {
namespace {

constexpr float kNormEpsilon = 1e-6F;  // torch.nn.utils.clip_grad_norm_

bool is_replicated(const RankContext& context, const Operation& op) {
  return context.sharding(op) == Sharding::Replicated;
}

ExactSum own_square_sum(const RankContext& context, const StepState& state) {
  ExactSum sum;
  for (std::size_t i = 0; i < context.program.operations.size(); ++i) {
    const Operation& op = context.program.operations[i];
    if (op.kind != OpKind::SquareSum) continue;
    // Every rank has the whole gradient of a replicated unit: it counts once.
    if (is_replicated(context, op) && context.collectives.rank() != 0) continue;
    sum.add(state.square_sums[i]);
  }
  return sum;
}

}  // namespace

void gather_chunk(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  const Chunk& chunk = context.chunk(op);
  std::byte* const unit = context.memory.parameters(op.unit, op.slot);
  if (context.sharding(op) == Sharding::Sharded && chunk.parameters == Home::Gpu) {
    host_copy(unit + context.bytes_of(memory.offset), memory.device_parameters,
              context.bytes_of(memory.elements));
  }
  context.collectives.all_gather(unit + context.bytes_of(chunk.offset),
                                 context.bytes_of(memory.elements));
}

void reduce_chunk(const RankContext& context, const Operation& op) {
  const Chunk& chunk = context.chunk(op);
  std::byte* const gradient =
      context.memory.gradients(op.unit, op.gradient_buffer) + context.bytes_of(chunk.offset);
  if (op.all_reduce) {
    context.collectives.all_reduce(gradient, chunk.elements, context.program.dtype);
  } else {
    context.collectives.reduce_scatter(gradient, chunk.elements, context.program.dtype);
  }
  if (chunk.optimizer == Home::Gpu) store_gradient(context, op);
}

void compute_norm(const RankContext& context, StepState& state) {
  Collectives& collectives = context.collectives;
  std::vector<ExactSum> sums(static_cast<std::size_t>(collectives.world_size()));
  sums[static_cast<std::size_t>(collectives.rank())] = own_square_sum(context, state);
  collectives.all_gather(sums.data(), sizeof(ExactSum));
  ExactSum total;
  for (const ExactSum& sum : sums) total.add(sum);
  state.gradient_norm = static_cast<float>(std::sqrt(total.high + total.low));
  const auto limit = static_cast<float>(context.plan.max_gradient_norm);
  state.gradient_scale = std::min(1.0F, limit / (state.gradient_norm + kNormEpsilon));
}

void compute_mean_loss(const RankContext& context, StepState& state) {
  Collectives& collectives = context.collectives;
  const std::size_t own = state.losses.size();
  const auto ranks = static_cast<std::size_t>(collectives.world_size());
  std::vector<double> losses(ranks * own);
  std::copy(state.losses.begin(), state.losses.end(),
            losses.begin() +
                static_cast<std::ptrdiff_t>(own * static_cast<std::size_t>(collectives.rank())));
  collectives.all_gather(losses.data(), static_cast<Bytes>(own * sizeof(double)));
  double sum = 0;
  for (std::size_t micro_batch = 0; micro_batch < own; ++micro_batch) {
    for (std::size_t rank = 0; rank < ranks; ++rank) sum += losses[rank * own + micro_batch];
  }
  state.mean_loss = sum / static_cast<double>(losses.size());
}

}  // namespace athanor
