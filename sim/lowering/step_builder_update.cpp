// SPDX-License-Identifier: Apache-2.0
// From a unit's gradients to its new parameters: reduce, copy to the host, norm, Adam, publish.
#include "sim/lowering/static_memory.hpp"
#include "sim/lowering/step_builder.hpp"
#include "sim/model/chunk_update.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Returns the lane of the processor that holds the state in its memory.
Lane lane_beside(Home optimizer) { return off_gpu(optimizer) ? Lane::CpuAdam : Lane::Compute; }

Lane adam_lane(const Chunk& chunk) {
  return chunk.gpu_adam ? Lane::Compute : lane_beside(chunk.optimizer);
}

}  // namespace

bool StepBuilder::clips() const { return plan_.clipping != Clipping::None; }

/// Backward of `unit` was the last to write its gradient buffer: borrowers come after it in the
/// model and so before it in backward.
void StepBuilder::drain_gradients(const Access& access, std::int32_t backward) {
  const std::int32_t unit = access.unit;
  const std::int32_t micro_batch = access.micro_batch;
  if (chunks(unit).empty()) return;
  const std::int32_t held = at(backward).gradient_buffer;
  const bool last = micro_batch + 1 == plan_.accumulation;
  const bool sums = accumulates_on_device(plan_);
  const bool last_member = access.member + 1 == plan_.micro_batch_group;
  std::int32_t last_reduce = -1;
  std::int32_t last_add = -1;
  std::int32_t last_copy = -1;
  for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
    const Chunk& chunk = chunk_at(unit, c);
    const bool on_host = off_gpu(chunk.optimizer);
    std::int32_t ready = backward;
    const bool sums_ranks = plan_.world_size > 1 && !chunk.owned;
    if (!on_host || sums_ranks)
      ready = last_reduce = emit_reduce(unit, c, micro_batch, held, backward);
    const bool in_buffer = sums_squares_as_gradients_pass(plan_, chunk.optimizer);
    if (in_buffer) {
      // On the lane of `ready`: among collectives it is now the last to use the buffer.
      const std::int32_t sum = emit_square_sum(unit, c, ready);
      if (sums_ranks) last_reduce = sum;
    }
    if (on_host && sums) ready = last_add = emit_grad_add(access, c, held, ready);
    if (on_host && last_member) {
      ready = last_copy = emit_grad_d2h(unit, c, micro_batch, sums ? -1 : held, ready);
    }
    if (writes_gradient_to_file(plan_, chunk)) ready = emit_grad_write(ready);
    state_of(unit, c).gradient_ready = ready;
    if (!last || !updates_within_backward(plan_, chunk)) continue;
    if (clips() && !in_buffer) emit_square_sum(unit, c, ready);
    emit_adam(unit, c);
  }
  if (sums && last_copy >= 0) accumulators_of(unit).release({unit, 0}, {last_copy});
  std::vector<std::int32_t> drained;
  for (const std::int32_t operation : {last_reduce, sums ? last_add : last_copy}) {
    if (operation >= 0) drained.push_back(operation);
  }
  gradients_of(unit).release({unit, access.member}, std::move(drained));
}

std::int32_t StepBuilder::emit_reduce(std::int32_t unit, std::int32_t chunk,
                                      std::int32_t micro_batch, std::int32_t gradient_buffer,
                                      std::int32_t backward) {
  Operation op = chunk_operation(OpKind::Reduce, Lane::Collective, unit, chunk);
  op.micro_batch = micro_batch;
  op.gradient_buffer = gradient_buffer;
  op.accumulate = micro_batch > 0;
  op.own = chunk_at(unit, chunk).owned;
  op.all_reduce = !op.own && unit_plan(unit).sharding == Sharding::Replicated;
  op.bytes =
      (op.own ? elements_held(unit, chunk) : chunk_at(unit, chunk).elements) * size_of(plan_.dtype);
  if (op.own || !off_gpu(chunk_at(unit, chunk).optimizer)) op.stored = elements_held(unit, chunk);
  op.waits.push_back(backward);
  StateCopies& copies = state_copies_;
  const bool says_marked =
      plan_.world_size > 1 && copies.before_gradients && mark_ >= 0 && copies.first_reduce < 0;
  if (says_marked) op.waits.push_back(mark_);
  const std::int32_t index = emit(std::move(op));
  if (says_marked) copies.first_reduce = index;
  if (first_reduce_ < 0) first_reduce_ = index;
  return index;
}

GradientPool& StepBuilder::accumulators_of(std::int32_t unit) {
  return accumulators_[static_cast<std::size_t>(program_.pool_of[static_cast<std::size_t>(unit)])];
}

void StepBuilder::take_accumulator(const Access& access) {
  if (!accumulates_on_device(plan_) || !keeps_state_off_gpu(chunks(access.unit))) return;
  const std::int32_t taken = accumulators_of(access.unit).acquire({access.unit, 0});
  if (access.micro_batch == 0) return;
  for (std::int32_t c = 0; c < chunk_count(access.unit); ++c) {
    if (off_gpu(chunk_at(access.unit, c).optimizer)) fetch_sum(access.unit, c, taken);
  }
}

void StepBuilder::fetch_sum(std::int32_t unit, std::int32_t chunk, std::int32_t accumulator) {
  Operation op = chunk_operation(OpKind::GradH2D, Lane::H2D, unit, chunk);
  op.accumulator = accumulator;
  op.bytes = elements_held(unit, chunk) * size_of(program_.gradient_dtype);
  op.waits = accumulators_of(unit)[accumulator].drained_by;
  ChunkState& chunk_state = state_of(unit, chunk);
  op.waits.push_back(chunk_state.gradient_ready);
  chunk_state.sum_fetched = emit(std::move(op));
}

/// On the lane of `source`, as the last to use the gradient buffer.
std::int32_t StepBuilder::emit_grad_add(const Access& access, std::int32_t chunk,
                                        std::int32_t gradient_buffer, std::int32_t source) {
  const std::int32_t unit = access.unit;
  GradientPool& pool = accumulators_of(unit);
  Operation op = chunk_operation(OpKind::GradAdd, at(source).lane, unit, chunk);
  op.micro_batch = access.micro_batch;
  op.gradient_buffer = gradient_buffer;
  op.accumulator = pool.held_by({unit, 0});
  op.accumulate = access.micro_batch > 0;
  op.elements = elements_held(unit, chunk);
  op.waits.push_back(source);
  GradientPool::Buffer& accumulator = pool[op.accumulator];
  if (access.micro_batch == 0) {
    op.waits.insert(op.waits.end(), accumulator.drained_by.begin(), accumulator.drained_by.end());
  } else if (access.member == 0) {
    op.waits.push_back(state_of(unit, chunk).sum_fetched);
  }
  const std::int32_t index = emit(std::move(op));
  if (accumulator.first_user < 0) accumulator.first_user = index;
  return index;
}

std::int32_t StepBuilder::emit_grad_d2h(std::int32_t unit, std::int32_t chunk,
                                        std::int32_t micro_batch, std::int32_t gradient_buffer,
                                        std::int32_t source) {
  Operation op = chunk_operation(OpKind::GradD2H, Lane::D2H, unit, chunk);
  op.micro_batch = micro_batch;
  op.gradient_buffer = gradient_buffer;
  op.accumulator = at(source).accumulator;
  op.accumulate = op.accumulator < 0 && micro_batch > 0;
  op.bytes = elements_held(unit, chunk) * size_of(program_.gradient_dtype);
  op.waits.push_back(source);
  if (stages_gradient(plan_, chunk_at(unit, chunk))) {
    op.staging_buffer = static_cast<std::int32_t>(staged_gradients_.next());
    return emit_fill(staged_gradients_, std::move(op));
  }
  const std::int32_t index = emit(std::move(op));
  const bool in_first_group = micro_batch < plan_.micro_batch_group;
  if (in_first_group) update_waits_.push_back({index, unit, chunk, true});
  return index;
}

/// The gradient of the step before was read from the file before this step's forward.
std::int32_t StepBuilder::emit_grad_write(std::int32_t grad_d2h) {
  const Operation& copied = at(grad_d2h);
  Operation op = chunk_operation(OpKind::GradWrite, Lane::NvmeWrite, copied.unit, copied.chunk);
  op.staging_buffer = copied.staging_buffer;
  op.bytes = file_blocks(copied.bytes);
  op.waits.push_back(grad_d2h);
  const auto buffer = static_cast<std::size_t>(op.staging_buffer);
  return staged_gradients_.emptied_by[buffer] = emit(std::move(op));
}

void StepBuilder::finish_step() {
  if (kind_ == StepKind::Evaluation) return emit_losses();
  if (clips()) emit_square_sums();
  if (!marks_before_losses()) emit_losses();
  if (clips()) emit_norm();
  if (marks_before_losses()) {
    emit_mark_of_start();
    emit_losses();
  }
  if (plan_.snapshot == Snapshot::Redo) emit_fence();
  emit_updates(Lane::CpuAdam, /*streamed=*/false);
  if (keeps_versions(plan_.snapshot) && !copies_state()) emit_mark();
  emit_updates(Lane::Compute, /*streamed=*/false);
  emit_updates(Lane::Compute, /*streamed=*/true);
  emit_publish();
}

void StepBuilder::emit_losses() {
  Operation loss;
  loss.kind = OpKind::Loss;
  loss.lane = Lane::Collective;
  loss.bytes = plan_.world_size * plan_.accumulation * static_cast<Bytes>(sizeof(double));
  loss.waits.push_back(last_forward_);
  if (marks_before_losses() && plan_.world_size > 1) loss.waits.push_back(mark_);
  loss_ = emit(std::move(loss));
}

void StepBuilder::emit_norm() {
  Operation norm;
  norm.kind = OpKind::Norm;
  norm.lane = Lane::Collective;
  norm.bytes = plan_.world_size * 2 * static_cast<Bytes>(sizeof(double));
  for (const std::int32_t last : square_sums_) {
    if (last >= 0 && at(last).lane != norm.lane) norm.waits.push_back(last);
  }
  norm_ = emit(std::move(norm));
}

/// Comes after the norm, which a killed step's updates need too, and after the last gradient: of a
/// lane's copies it waits for the last.
void StepBuilder::emit_fence() {
  Operation fence;
  fence.kind = OpKind::Fence;
  fence.lane = Lane::Collective;
  fence.bytes = plan_.world_size * static_cast<Bytes>(sizeof(double));
  std::int32_t last_gradient = -1;
  for (const UnitState& unit : units_) {
    for (const ChunkState& chunk : unit.chunks) {
      last_gradient = std::max(last_gradient, chunk.gradient_ready);
    }
  }
  fence.waits.push_back(last_gradient);
  fence_ = emit(std::move(fence));
}

/// Comes after the last update on its lane. It keeps the losses, too. Its size is that of a few
/// numbers, so it takes no time.
void StepBuilder::emit_mark() {
  Operation mark;
  mark.kind = OpKind::Mark;
  mark.lane = Lane::CpuAdam;
  mark.waits.push_back(loss_);
  mark_ = emit(std::move(mark));
}

/// Emits the sums that are left, in the order in which gradients became ready.
void StepBuilder::emit_square_sums() {
  for (auto unit = static_cast<std::int32_t>(units_.size()); unit-- > 0;) {
    for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
      const Chunk& chunk = chunk_at(unit, c);
      if (updates_within_backward(plan_, chunk) ||
          sums_squares_as_gradients_pass(plan_, chunk.optimizer))
        continue;
      emit_square_sum(unit, c, state_of(unit, c).gradient_ready);
    }
  }
}

/// Sums on the lane of Adam, or on the lane of `after` where the gradient is still in its buffer.
std::int32_t StepBuilder::emit_square_sum(std::int32_t unit, std::int32_t chunk,
                                          std::int32_t after) {
  Operation op = update_operation(OpKind::SquareSum, unit, chunk);
  if (sums_squares_as_gradients_pass(plan_, chunk_at(unit, chunk).optimizer)) {
    op.lane = at(after).lane;
    op.gradient_buffer = at(after).gradient_buffer;
  }
  op.waits.push_back(after);
  std::int32_t& last = square_sums_[lane_index(op.lane)];
  return last = emit(std::move(op));
}

Operation StepBuilder::update_operation(OpKind kind, std::int32_t unit, std::int32_t chunk) const {
  const Chunk& layout =
      program_.layouts[static_cast<std::size_t>(unit)].chunks[static_cast<std::size_t>(chunk)];
  Operation op;
  op.kind = kind;
  op.lane = kind == OpKind::SquareSum ? lane_beside(layout.optimizer) : adam_lane(layout);
  op.unit = unit;
  op.chunk = chunk;
  op.elements = elements_held(unit, chunk);
  return op;
}

void StepBuilder::emit_adam(std::int32_t unit, std::int32_t chunk) {
  const Chunk& layout = chunk_at(unit, chunk);
  Operation op = update_operation(OpKind::Adam, unit, chunk);
  op.speculative = speculates(plan_, layout);
  op.beside = updates_beside(plan_, layout);
  ChunkState& chunk_state = state_of(unit, chunk);
  const bool after_norm = clips() && !op.speculative;
  if (after_norm) op.waits.push_back(norm_);
  if (fence_ >= 0) op.waits.push_back(fence_);
  if (chunk_state.copied >= 0) op.waits.push_back(chunk_state.copied);
  // A rank without that mark may have no newer version than what the update writes over.
  if (op.lane == Lane::CpuAdam && marks_before_losses() && plan_.world_size > 1) {
    op.waits.push_back(loss_);
  }
  // A gradient summed in its buffer may be on its way to the host when the norm is known.
  if (!layout.gpu_adam && fence_ < 0 &&
      (!after_norm || sums_squares_as_gradients_pass(plan_, layout.optimizer))) {
    op.waits.push_back(chunk_state.gradient_ready);
  }
  const bool passes_buffer = layout.optimizer == Home::Nvme || layout.gpu_adam;
  if (passes_buffer) op.waits.push_back(emit_state_read(op, chunk_state.gradient_ready));
  const std::int32_t staged = at(chunk_state.gradient_ready).staging_buffer;
  if (at(chunk_state.gradient_ready).kind == OpKind::GradD2H) op.staging_buffer = staged;
  chunk_state.adam = chunk_state.updated = emit(std::move(op));
  if (at(chunk_state.adam).staging_buffer >= 0) {
    staged_gradients_.emptied_by[static_cast<std::size_t>(staged)] = chunk_state.adam;
  }
  if (passes_buffer) {
    const std::int32_t write = emit_state_write(chunk_state.adam);
    if (layout.gpu_adam || layout.parameters == Home::Nvme) chunk_state.updated = write;
  }
}

/// Replaces Adam as the chunk's update: later operations wait for the rollback.
void StepBuilder::emit_adam_rollback(std::int32_t unit, std::int32_t chunk) {
  Operation op = update_operation(OpKind::AdamRollback, unit, chunk);
  op.waits.push_back(norm_);
  ChunkState& chunk_state = state_of(unit, chunk);
  chunk_state.adam = chunk_state.updated = emit(std::move(op));
}

StepBuilder::Ring& StepBuilder::state_buffers(const Operation& adam) {
  return adam.lane == Lane::CpuAdam ? state_buffers_ : stream_buffers_;
}

Operation StepBuilder::state_copy(OpKind kind, const Operation& adam) const {
  Operation op;
  op.kind = kind;
  op.unit = adam.unit;
  op.chunk = adam.chunk;
  op.state_buffer = adam.state_buffer;
  const bool from_file = adam.lane == Lane::CpuAdam;
  op.lane = kind == OpKind::StateRead ? (from_file ? Lane::NvmeRead : Lane::H2D)
                                      : (from_file ? Lane::NvmeWrite : Lane::D2H);
  const auto unit = static_cast<std::size_t>(op.unit);
  const Chunk& chunk = program_.layouts[unit].chunks[static_cast<std::size_t>(op.chunk)];
  op.bytes = state_copy_bytes(op.lane, adam.elements, in_file(plan_, chunk), program_);
  return op;
}

/// Gives `adam` the buffer that was used longest ago. A file is read as soon as that is free, ahead
/// even of the gradient and of the step, unless the gradient is in the file too. Streamed state
/// takes its gradient along.
std::int32_t StepBuilder::emit_state_read(Operation& adam, std::int32_t gradient_ready) {
  Ring& buffers = state_buffers(adam);
  adam.state_buffer = static_cast<std::int32_t>(buffers.next());
  Operation op = state_copy(OpKind::StateRead, adam);
  if (op.lane == Lane::H2D || at(gradient_ready).kind == OpKind::GradWrite) {
    op.waits.push_back(gradient_ready);
  }
  return emit_fill(buffers, std::move(op));
}

std::int32_t StepBuilder::emit_state_write(std::int32_t adam) {
  Operation op = state_copy(OpKind::StateWrite, at(adam));
  op.waits.push_back(adam);
  const auto buffer = static_cast<std::size_t>(op.state_buffer);
  return state_buffers(at(adam)).emptied_by[buffer] = emit(std::move(op));
}

/// Emits the updates that are left once all gradients, and the norm, are known. They run in the
/// order in which the next forward needs the parameters. Streamed state comes last on the device:
/// it waits for copies.
void StepBuilder::emit_updates(Lane lane, bool streamed) {
  for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units_.size()); ++unit) {
    for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
      const Chunk& chunk = chunk_at(unit, c);
      if (adam_lane(chunk) != lane || chunk.gpu_adam != streamed) continue;
      if (!updates_within_backward(plan_, chunk)) emit_adam(unit, c);
      if (speculates(plan_, chunk)) emit_adam_rollback(unit, c);
    }
  }
}

/// New parameters go to their home on the device and, where the unit is replicated but its
/// optimizer is not, to every rank. Chunks that the device updated come first: they are ready
/// first.
void StepBuilder::emit_publish() {
  std::vector<std::pair<std::int32_t, std::int32_t>> order;
  for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(units_.size()); ++unit) {
    for (std::int32_t c = 0; c < chunk_count(unit); ++c) order.emplace_back(unit, c);
  }
  const auto adam_of = [this](const auto& item) { return state_of(item.first, item.second).adam; };
  std::ranges::sort(order, [&](const auto& a, const auto& b) {
    const bool a_host = at(adam_of(a)).lane == Lane::CpuAdam;
    const bool b_host = at(adam_of(b)).lane == Lane::CpuAdam;
    return a_host != b_host ? b_host : adam_of(a) < adam_of(b);
  });
  for (const auto& [unit, chunk] : order) publish_chunk(unit, chunk);
}

void StepBuilder::publish_chunk(std::int32_t unit, std::int32_t chunk) {
  const Chunk& layout = chunk_at(unit, chunk);
  ChunkState& chunk_state = state_of(unit, chunk);
  const Sharding sharding = unit_plan(unit).sharding;
  if (off_gpu(layout.optimizer) && layout.parameters == Home::Gpu) {
    Operation op = chunk_operation(OpKind::ParamH2D, Lane::H2D, unit, chunk);
    op.bytes = elements_held(unit, chunk) * size_of(plan_.dtype);
    op.waits.push_back(chunk_state.updated);
    chunk_state.updated = emit(std::move(op));
  }
  if (sharding == Sharding::OptimizerSharded && plan_.world_size > 1 && !layout.owned) {
    const std::int32_t gather = emit_gather(unit, chunk, -1);
    at(gather).waits.push_back(chunk_state.updated);
    chunk_state.updated = gather;
  }
}

}  // namespace athanor
