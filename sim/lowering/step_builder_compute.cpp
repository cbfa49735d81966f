// SPDX-License-Identifier: Apache-2.0
// Forward, recompute and backward of one access, and the device memory that they allocate and free.
#include "sim/base/errors.hpp"
#include "sim/lowering/step_builder.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace athanor {
namespace {

/// Returns `name`, with the member of the group where it is not the first.
std::string member_name(std::string name, std::int32_t member) {
  return member == 0 ? std::move(name) : fmt::format("{}, member {}", name, member);
}

}  // namespace

/// Outputs that visit the host are dropped while the access after their reader's computes, and
/// taken again while the access before it does.
void StepBuilder::compute(std::size_t position) {
  const Access access = order_[position];
  if (position + 1 < order_.size()) {
    const Access& next = order_[position + 1];
    if (next.backward && reads_offloaded(next)) fetch_output(input_of(next));
  }
  if (!access.backward) {
    emit_forward(access);
    if (access.micro_batch == 0) continue_peer_copies(access.unit);
    const Access* const before = position > 0 ? &order_[position - 1] : nullptr;
    if (before != nullptr && !before->backward && reads_offloaded(*before)) {
      drop_output(last_forward_, input_of(*before));
    }
    if (offloads(access.unit)) store_output(access);
  } else {
    if (!keeps(access.unit)) emit_recompute(access);
    emit_backward(access);
  }
  for (const std::int32_t unit : used_in(access.visit)) cache_.touch(unit, access.visit);
  // Draining follows backward in emission.
  visit_operations_[static_cast<std::size_t>(access.visit)] = last_computed_;
  continue_state_copies(position);
  if (access.backward) drain_gradients(access, last_computed_);
}

Access StepBuilder::input_of(Access access) {
  --access.unit;
  return access;
}

Access StepBuilder::output_of(Access access) {
  ++access.unit;
  return access;
}

bool StepBuilder::reads_offloaded(const Access& access) const {
  return access.unit > 0 && offloads(access.unit - 1);
}

Operation StepBuilder::compute_operation(OpKind kind, const Access& access,
                                         const PhaseCost& measured) {
  const bool replays = plan_.cuda_graphs && kind_ == StepKind::Training;
  const PhaseCost phase = replays ? replayed(measured) : measured;
  if (replays) program_.graph_bytes += measured.replay->graph_bytes;
  Operation op;
  op.kind = kind;
  op.lane = Lane::Compute;
  op.unit = access.unit;
  op.micro_batch = access.micro_batch;
  op.member = access.member;
  op.compute_seconds = phase.seconds;
  op.issue_seconds = phase.issue_seconds;
  op.unthrottled_seconds = phase.unthrottled_seconds;
  op.watts = phase.watts;
  op.peak_bytes = phase.peak_bytes;
  return op;
}

void StepBuilder::emit_forward(const Access& access) {
  const UnitCost& unit_cost = cost(access.unit);
  const bool keep = keeps(access.unit);
  Operation op = compute_operation(OpKind::Forward, access,
                                   keep ? unit_cost.forward_keep : unit_cost.forward_discard);
  op.keep = keep;
  const Held held = held_by(access.unit);
  if (access.unit == 0) {
    op.allocates.push_back(batch_buffer(access));
    op.peak_bytes += profile_.batch_bytes_per_sample * plan_.micro_batch;
  }
  op.allocates.push_back(keep ? buffer(saved_, access, "saved ", held.saved)
                              : buffer(outputs_, access, "output ", held.output));
  if (kind_ == StepKind::Evaluation) forget_input(op, access);
  const Phase phase = emit_phase(std::move(op), access, {});
  // The first forward waits for the peers' mark where copies to them block training.
  if (last_forward_ < 0 && peer_mark_ >= 0) at(phase.first).waits.push_back(peer_mark_);
  last_forward_ = last_computed_ = phase.last;
  wait_for_parameters(phase.first, access.unit);
}

void StepBuilder::forget_input(Operation& forward, const Access& access) {
  if (access.unit > 0) forward.frees.push_back(outputs_[member_index(input_of(access))]);
  if (access.unit + 1 < static_cast<std::int32_t>(units_.size())) return;
  forward.frees.push_back(outputs_[member_index(access)]);
  forward.frees.push_back(batch_buffer(access));
}

void StepBuilder::emit_output_copy(OpKind kind, const Access& output, std::int32_t after) {
  Operation op;
  op.kind = kind;
  op.lane = kind == OpKind::OutputD2H ? Lane::D2H : Lane::H2D;
  op.unit = output.unit;
  op.micro_batch = output.micro_batch;
  op.member = output.member;
  op.bytes = cost(output.unit).output_bytes;
  op.waits.push_back(after);
  output_copies_[member_index(output)] = emit(std::move(op));
}

/// The next group may overwrite the output: compute is in order, so backward has read it.
void StepBuilder::store_output(const Access& output) {
  if (output.micro_batch == output.member) {
    const std::string& unit = program_.unit_names[static_cast<std::size_t>(output.unit)];
    program_.static_buffers.push_back({member_name("host output " + unit, output.member),
                                       Tier::Pinned, cost(output.unit).output_bytes});
  }
  emit_output_copy(OpKind::OutputD2H, output, last_forward_);
}

void StepBuilder::drop_output(std::int32_t operation, const Access& output) {
  at(operation).waits.push_back(output_copies_[member_index(output)]);
  at(operation).frees.push_back(outputs_[member_index(output)]);
}

/// Runs while the next access computes; the memory is allocated at the end of the one before.
void StepBuilder::fetch_output(const Access& output) {
  at(last_computed_).allocates.push_back(outputs_[member_index(output)]);
  emit_output_copy(OpKind::OutputH2D, output, last_computed_);
}

void StepBuilder::emit_recompute(const Access& access) {
  Operation op = compute_operation(OpKind::Recompute, access, cost(access.unit).recompute);
  op.keep = true;
  op.allocates.push_back(buffer(saved_, access, "saved ", held_by(access.unit).saved));
  if (reads_offloaded(access)) op.waits.push_back(output_copies_[member_index(input_of(access))]);
  wait_for_parameters(emit_phase(std::move(op), access, {}).first, access.unit);
}

void StepBuilder::emit_backward(const Access& access) {
  const std::int32_t unit = access.unit;
  Operation op = compute_operation(OpKind::Backward, access,
                                   profile_.backward(cost(unit), plan_.deterministic));
  std::vector<std::int32_t> consumed{saved_[member_index(access)]};
  if (unit + 1 < static_cast<std::int32_t>(units_.size())) {
    consumed.push_back(grad_inputs_[member_index(output_of(access))]);
  }
  if (unit == 0) {
    op.frees.push_back(batch_buffer(access));
  } else {
    op.allocates.push_back(
        buffer(grad_inputs_, access, "gradient into ", held_by(unit).grad_input));
    if (!keeps(unit - 1)) op.frees.push_back(outputs_[member_index(input_of(access))]);
  }
  const Phase phase = emit_phase(std::move(op), access, std::move(consumed));
  last_computed_ = phase.last;
  wait_for_parameters(phase.first, unit);
  take_gradient_buffers(phase.first, access);
  at(phase.last).gradient_buffer = at(phase.first).gradient_buffer;
}

void StepBuilder::wait_for_parameters(std::int32_t operation, std::int32_t unit) {
  for (const std::int32_t cached : cached_[static_cast<std::size_t>(unit)]) {
    auto& waits = at(operation).waits;
    // A recompute just before has waited for the same.
    const auto& fetched = state(cached).fetched_by;
    waits.insert(waits.end(), fetched.begin(), fetched.end());
    at(operation).slot = cached == unit ? cache_.slot_of(unit) : at(operation).slot;
  }
  const bool replicated = unit_plan(unit).sharding != Sharding::Sharded;
  if (!replicated || state(unit).used_this_step) return;
  state(unit).used_this_step = true;
  for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
    update_waits_.push_back({operation, unit, c, false});
  }
}

void StepBuilder::take_gradient_buffers(std::int32_t operation, const Access& access) {
  const std::int32_t unit = access.unit;
  take_gradient_buffer(operation, {unit, access.member});
  for (const Borrow& borrow : profile_.architecture.units[static_cast<std::size_t>(unit)].borrows) {
    take_gradient_buffer(operation, {borrow.unit, access.member});
  }
  if (chunks(unit).empty()) return;
  at(operation).gradient_buffer = gradients_of(unit).held_by({unit, access.member});
}

GradientPool& StepBuilder::gradients_of(std::int32_t unit) {
  return gradients_[static_cast<std::size_t>(program_.pool_of[static_cast<std::size_t>(unit)])];
}

void StepBuilder::take_gradient_buffer(std::int32_t operation, GradientPool::Holder holder) {
  if (chunks(holder.unit).empty()) return;
  GradientPool& pool = gradients_of(holder.unit);
  if (pool.held_by(holder) >= 0) return;  // a unit that borrows from this one wrote it first
  const std::int32_t taken = pool.acquire(holder);
  if (taken < 0) {
    const std::string& unit = program_.unit_names[static_cast<std::size_t>(holder.unit)];
    throw InputError("plan:gradient_buffers",
                     fmt::format("{} buffers cannot hold the gradients that unit {} shares",
                                 plan_.gradient_buffers, unit),
                     "Raise gradient_buffers, or lower micro_batch_group.");
  }
  GradientPool::Buffer& held = pool[taken];
  auto& waits = at(operation).waits;
  waits.insert(waits.end(), held.drained_by.begin(), held.drained_by.end());
  if (held.first_user < 0) held.first_user = operation;
}

std::size_t StepBuilder::member_index(const Access& access) const {
  return static_cast<std::size_t>(access.unit * plan_.micro_batch_group + access.member);
}

std::int32_t StepBuilder::add_buffer(std::string name, std::int32_t member, Bytes bytes) {
  program_.buffers.push_back({member_name(std::move(name), member), Tier::Gpu, bytes});
  return static_cast<std::int32_t>(program_.buffers.size()) - 1;
}

std::int32_t StepBuilder::batch_buffer(const Access& access) {
  std::int32_t& index = batches_[static_cast<std::size_t>(access.member)];
  if (index < 0) {
    index = add_buffer("batch", access.member, profile_.batch_bytes_per_sample * plan_.micro_batch);
  }
  return index;
}

std::int32_t StepBuilder::buffer(std::vector<std::int32_t>& of, const Access& access,
                                 const char* name, Bytes bytes) {
  std::int32_t& index = of[member_index(access)];
  if (index < 0) {
    const std::string& unit = program_.unit_names[static_cast<std::size_t>(access.unit)];
    index = add_buffer(name + unit, access.member, bytes);
  }
  return index;
}

}  // namespace athanor
