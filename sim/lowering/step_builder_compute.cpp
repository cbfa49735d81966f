// SPDX-License-Identifier: Apache-2.0
// Forward, recompute and backward of one access, and the device memory that they allocate and free.
#include "sim/base/errors.hpp"
#include "sim/lowering/step_builder.hpp"

#include <fmt/format.h>

namespace athanor {

void StepBuilder::compute(std::int32_t position) {
  const Access access = order_[static_cast<std::size_t>(position)];
  if (!access.backward) {
    emit_forward(access);
  } else {
    if (access.unit >= 2 && offloads(access.unit - 2)) {
      fetch_output(access.unit - 2, access.micro_batch, position);
    }
    if (!keeps(access.unit)) emit_recompute(access);
    emit_backward(access);
  }
  // Draining follows backward in emission, so remember the computing operation before it.
  for (const std::int32_t unit : cached_[static_cast<std::size_t>(access.unit)]) {
    cache_.touch(unit, position);
  }
  const std::int32_t computed = state(access.unit).last_compute;
  access_operation_[static_cast<std::size_t>(position)] = computed;
  if (access.backward) drain_gradients(access.unit, access.micro_batch, computed);
}

Operation StepBuilder::compute_operation(OpKind kind, const Access& access,
                                         const PhaseCost& phase) const {
  Operation op;
  op.kind = kind;
  op.lane = Lane::Compute;
  op.unit = access.unit;
  op.micro_batch = access.micro_batch;
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
  if (access.unit == 0) {
    const Bytes bytes = profile_.batch_bytes_per_sample * plan_.micro_batch;
    if (batch_ < 0) {
      batch_ = static_cast<std::int32_t>(program_.buffers.size());
      program_.buffers.push_back({"batch", Tier::Gpu, bytes});
    }
    op.allocates.push_back(batch_);
    op.peak_bytes += bytes;
  }
  op.allocates.push_back(keep ? buffer(saved_, access.unit, "saved ", unit_cost.saved_bytes)
                              : buffer(outputs_, access.unit, "output ", unit_cost.output_bytes));
  last_forward_ = state(access.unit).last_compute = emit(std::move(op));
  wait_for_parameters(last_forward_, access.unit);
  if (access.unit >= 2 && offloads(access.unit - 2)) drop_output(last_forward_, access.unit - 2);
  if (offloads(access.unit)) store_output(access.unit, access.micro_batch);
}

void StepBuilder::emit_output_copy(OpKind kind, std::int32_t unit, std::int32_t micro_batch,
                                   std::int32_t after) {
  Operation op;
  op.kind = kind;
  op.lane = kind == OpKind::OutputD2H ? Lane::D2H : Lane::H2D;
  op.unit = unit;
  op.micro_batch = micro_batch;
  op.bytes = cost(unit).output_bytes;
  op.waits.push_back(after);
  output_copies_[static_cast<std::size_t>(unit)] = emit(std::move(op));
}

/// The next micro-batch may overwrite the output: compute is in order, so backward has read it.
void StepBuilder::store_output(std::int32_t unit, std::int32_t micro_batch) {
  if (micro_batch == 0) {
    program_.static_buffers.push_back(
        {"host output " + program_.unit_names[static_cast<std::size_t>(unit)], Tier::Pinned,
         cost(unit).output_bytes});
  }
  emit_output_copy(OpKind::OutputD2H, unit, micro_batch, last_forward_);
}

void StepBuilder::drop_output(std::int32_t operation, std::int32_t unit) {
  at(operation).waits.push_back(output_copies_[static_cast<std::size_t>(unit)]);
  at(operation).frees.push_back(outputs_[static_cast<std::size_t>(unit)]);
}

/// Runs while the access at `position` computes; the memory is allocated at the end of the one
/// before.
void StepBuilder::fetch_output(std::int32_t unit, std::int32_t micro_batch, std::int32_t position) {
  const std::int32_t before = access_operation_[static_cast<std::size_t>(position) - 1];
  at(before).allocates.push_back(outputs_[static_cast<std::size_t>(unit)]);
  emit_output_copy(OpKind::OutputH2D, unit, micro_batch, before);
}

void StepBuilder::emit_recompute(const Access& access) {
  const UnitCost& unit_cost = cost(access.unit);
  Operation op = compute_operation(OpKind::Recompute, access, unit_cost.recompute);
  op.keep = true;
  op.allocates.push_back(buffer(saved_, access.unit, "saved ", unit_cost.saved_bytes));
  if (access.unit > 0 && offloads(access.unit - 1)) {
    op.waits.push_back(output_copies_[static_cast<std::size_t>(access.unit) - 1]);
  }
  wait_for_parameters(emit(std::move(op)), access.unit);
}

void StepBuilder::emit_backward(const Access& access) {
  const std::int32_t unit = access.unit;
  const UnitCost& unit_cost = cost(unit);
  Operation op = compute_operation(OpKind::Backward, access, unit_cost.backward);
  op.frees.push_back(saved_[static_cast<std::size_t>(unit)]);
  if (unit + 1 < static_cast<std::int32_t>(units_.size())) {
    op.frees.push_back(grad_inputs_[static_cast<std::size_t>(unit) + 1]);
  }
  if (unit == 0) {
    op.frees.push_back(batch_);
  } else {
    op.allocates.push_back(
        buffer(grad_inputs_, unit, "gradient into ", unit_cost.grad_input_bytes));
    if (!keeps(unit - 1)) op.frees.push_back(outputs_[static_cast<std::size_t>(unit) - 1]);
  }
  const std::int32_t index = state(unit).last_compute = emit(std::move(op));
  wait_for_parameters(index, unit);
  take_gradient_buffers(index, unit);
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

void StepBuilder::take_gradient_buffers(std::int32_t operation, std::int32_t unit) {
  take_gradient_buffer(operation, unit);
  for (const Borrow& borrow : profile_.architecture.units[static_cast<std::size_t>(unit)].borrows) {
    take_gradient_buffer(operation, borrow.unit);
  }
  if (chunks(unit).empty()) return;
  at(operation).gradient_buffer =
      gradients_[static_cast<std::size_t>(program_.pool_of[static_cast<std::size_t>(unit)])]
          .held_by(unit);
}

void StepBuilder::take_gradient_buffer(std::int32_t operation, std::int32_t unit) {
  if (chunks(unit).empty()) return;
  GradientPool& pool =
      gradients_[static_cast<std::size_t>(program_.pool_of[static_cast<std::size_t>(unit)])];
  if (pool.held_by(unit) >= 0) return;  // a unit that borrows from this one wrote it first
  const std::int32_t taken = pool.acquire(unit);
  if (taken < 0) {
    throw InputError(
        "plan:gradient_buffers",
        fmt::format("{} buffers cannot hold the gradients that unit {} shares",
                    plan_.gradient_buffers, program_.unit_names[static_cast<std::size_t>(unit)]),
        "Raise gradient_buffers.");
  }
  GradientPool::Buffer& held = pool[taken];
  auto& waits = at(operation).waits;
  waits.insert(waits.end(), held.drained_by.begin(), held.drained_by.end());
  if (held.first_user < 0) held.first_user = operation;
}

std::int32_t StepBuilder::buffer(std::vector<std::int32_t>& of, std::int32_t unit, const char* name,
                                 Bytes bytes) {
  std::int32_t& index = of[static_cast<std::size_t>(unit)];
  if (index < 0) {
    index = static_cast<std::int32_t>(program_.buffers.size());
    program_.buffers.push_back(
        {name + program_.unit_names[static_cast<std::size_t>(unit)], Tier::Gpu, bytes});
  }
  return index;
}

}  // namespace athanor
