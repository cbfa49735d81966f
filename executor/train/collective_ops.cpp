// SPDX-License-Identifier: Apache-2.0
#include "executor/train/collective_ops.hpp"

#include "executor/train/transfer_ops.hpp"
#include "executor/watch/job_watch.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <span>

namespace athanor {
void gather_chunk(const RankContext& context, const Operation& op) {
  const ChunkMemory& memory = context.chunk_memory(op);
  const Chunk& chunk = context.chunk(op);
  std::byte* const unit = context.memory.parameters(op.unit, op.slot);
  if (context.sharding(op) == Sharding::Sharded && chunk.parameters == Home::Gpu) {
    context.device.copy(op.lane, unit + context.bytes_of(memory.place), memory.device_parameters,
                        context.bytes_of(memory.elements));
  }
  context.collectives.all_gather(unit + context.bytes_of(chunk.place),
                                 context.bytes_of(memory.elements));
}

void reduce_chunk(const RankContext& context, const Operation& op) {
  const Chunk& chunk = context.chunk(op);
  std::byte* const gradient =
      context.memory.gradients(op.unit, op.gradient_buffer) + context.bytes_of(chunk.place);
  if (op.own) return store_gradient(context, op);
  if (op.all_reduce) {
    context.collectives.all_reduce(gradient, chunk.elements, context.program.dtype);
  } else {
    context.collectives.reduce_scatter(gradient, chunk.elements, context.program.dtype);
  }
  if (chunk.optimizer == Home::Gpu) store_gradient(context, op);
}

namespace {

void require_planned(const RankContext& context, const Operation& op,
                     const std::vector<TravellingBytes>& travels) {
  Bytes bytes = 0;
  for (const TravellingBytes& travel : travels) bytes += travel.bytes;
  if (bytes != op.bytes) {
    throw Error(fmt::format("{}: {} bytes travel, but {} in the plan",
                            context.program.unit_names.at(op.unit), bytes, op.bytes));
  }
}

}  // namespace

void exchange_rows(const RankContext& context, const Operation& op,
                   const std::vector<TravellingBytes>& travels) {
  require_planned(context, op, travels);
  const int ranks = context.collectives.world_size();
  for (const TravellingBytes& travel : travels) {
    if (ranks == 1) {
      context.device.copy(op.lane, travel.to, travel.from, travel.bytes);
    } else {
      context.collectives.all_to_all(travel.from, travel.to, travel.bytes / ranks);
    }
  }
}

void gather_rows(const RankContext& context, const Operation& op,
                 const std::vector<TravellingBytes>& travels) {
  require_planned(context, op, travels);
  for (const TravellingBytes& travel : travels) {
    const Bytes own = travel.bytes / context.collectives.world_size();
    context.device.copy(op.lane, travel.to + context.collectives.rank() * own, travel.from, own);
    context.collectives.all_gather(travel.to, own);
  }
}

void sum_rows_of_ranks(const RankContext& context, const Operation& op,
                       const std::vector<TravellingBytes>& travels) {
  require_planned(context, op, travels);
  for (const TravellingBytes& travel : travels) {
    const Bytes own = travel.bytes / context.collectives.world_size();
    context.collectives.reduce_scatter(travel.from, travel.bytes / size_of(context.program.dtype),
                                       context.program.dtype);
    context.device.copy(op.lane, travel.to, travel.from + context.collectives.rank() * own, own);
  }
}

void compute_norm(const RankContext& context, const Operation& op, const StepScalars& scalars) {
  Device& device = context.device;
  const std::span<ExactSum> own = scalars.own_square_sums();
  const std::span<ExactSum> of_host = scalars.host_square_sums();
  const std::span<ExactSum> of_ranks = scalars.square_sums_of_ranks();
  device.copy(op.lane, own.last(of_host.size()).data(), of_host.data(),
              static_cast<Bytes>(of_host.size_bytes()));
  device.sum(op.lane, own, &of_ranks[static_cast<std::size_t>(context.collectives.rank())]);
  context.collectives.all_gather(of_ranks.data(), sizeof(ExactSum));
  device.clip(op.lane, of_ranks, static_cast<float>(context.plan.max_gradient_norm),
              scalars.clipping(Home::Gpu));
  device.copy(op.lane, scalars.clipping(Home::Host), scalars.clipping(Home::Gpu),
              sizeof(ClippingResult));
}

void gather_losses(const RankContext& context, const Operation& op, const StepScalars& scalars) {
  const std::span<double> losses = scalars.losses(Home::Gpu);
  const JobWatch* const watch = context.watch;
  const bool stops = watch != nullptr && (watch->is_stop_wanted() || watch->is_pause_wanted());
  *scalars.own_stop_wish() = stops ? 1 : 0;
  context.device.copy(op.lane, scalars.stop_wish_slot(), scalars.own_stop_wish(), sizeof(double));
  const auto ranks = static_cast<std::size_t>(context.collectives.world_size());
  context.collectives.all_gather(losses.data(), static_cast<Bytes>(losses.size_bytes() / ranks));
  context.device.copy(op.lane, scalars.losses(Home::Host).data(), losses.data(),
                      static_cast<Bytes>(losses.size_bytes()));
}

}  // namespace athanor
