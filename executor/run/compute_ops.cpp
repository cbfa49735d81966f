// SPDX-License-Identifier: Apache-2.0
#include "executor/run/compute_ops.hpp"

#include "sim/model/errors.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

namespace athanor {

ComputeOps::ComputeOps(const RankContext& context, const Model& model, DeviceArena& arena,
                       BatchSource batches)
    : context_(context),
      arena_(arena),
      batches_(std::move(batches)),
      bindings_(bind_compute_operations(model.architecture, context.program)),
      activations_(model.units.size()) {
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    runners_.emplace_back(model.units[i], model.architecture.units[i],
                          context.program.layouts[i].elements, context.program.dtype);
  }
}

void ComputeOps::forward(std::int32_t operation, StepState& state) {
  const Operation& op = context_.program.operations[static_cast<std::size_t>(operation)];
  const ComputeBinding& binding = bindings_[static_cast<std::size_t>(operation)];
  const auto unit = static_cast<std::size_t>(op.unit);
  if (binding.begins_micro_batch) load_batch(op, state);
  bind(binding);
  const ArenaScope scope(arena_);
  UnitActivations& activations = activations_[unit];
  if (unit > 0) activations.input = std::exchange(flow_, torch::Tensor()).detach().requires_grad_();
  flow_ = runners_[unit].forward(activations, batch_, op.keep);
  if (unit + 1 < runners_.size()) return;
  const auto loss = std::exchange(flow_, torch::Tensor()).item<double>();
  if (!std::isfinite(loss)) {
    throw Error(fmt::format("the loss is {}. Lower --lr, or check the data.", loss));
  }
  state.losses[static_cast<std::size_t>(op.micro_batch)] = loss;
}

void ComputeOps::recompute(std::int32_t operation) {
  const Operation& op = context_.program.operations[static_cast<std::size_t>(operation)];
  const auto unit = static_cast<std::size_t>(op.unit);
  bind(bindings_[static_cast<std::size_t>(operation)]);
  const ArenaScope scope(arena_);
  // The output is needed only by the graph; flow_ already holds the gradient that comes back.
  static_cast<void>(runners_[unit].forward(activations_[unit], batch_, /*keep=*/true));
}

void ComputeOps::backward(std::int32_t operation) {
  const Operation& op = context_.program.operations[static_cast<std::size_t>(operation)];
  const ComputeBinding& binding = bindings_[static_cast<std::size_t>(operation)];
  const auto unit = static_cast<std::size_t>(op.unit);
  bind(binding);
  bind_gradients(binding);
  const ArenaScope scope(arena_);
  if (unit + 1 == runners_.size()) flow_ = loss_scale();
  flow_ = runners_[unit].backward(activations_[unit], std::move(flow_));
  activations_[unit] = {};
  if (binding.ends_micro_batch) {
    flow_.reset();
    batch_ = {};
  }
}

void ComputeOps::bind(const ComputeBinding& binding) {
  for (const UnitBinding& unit : binding.units) {
    runners_[static_cast<std::size_t>(unit.unit)].bind_parameters(
        context_.memory.parameters(unit.unit, unit.slot));
  }
}

void ComputeOps::bind_gradients(const ComputeBinding& binding) {
  for (const UnitBinding& unit : binding.units) {
    std::byte* const buffer = context_.memory.gradients(unit.unit, unit.gradient_buffer);
    if (unit.clear_gradients) {
      std::memset(buffer, 0, static_cast<std::size_t>(context_.memory.gradient_bytes(unit.unit)));
    }
    runners_[static_cast<std::size_t>(unit.unit)].bind_gradients(buffer);
  }
}

// The source makes its tensors in host memory; the copy is what the device holds.
void ComputeOps::load_batch(const Operation& op, const StepState& state) {
  const Plan& plan = context_.plan;
  const std::int64_t micro_batch =
      (state.step * plan.accumulation + op.micro_batch) * plan.world_size +
      context_.collectives.rank();
  const Batch host = batches_(micro_batch * plan.micro_batch, plan.micro_batch);
  const ArenaScope scope(arena_);
  batch_ = {host.inputs.clone(), host.targets.defined() ? host.targets.clone() : torch::Tensor()};
}

// Scaling here makes every later reduction a plain sum.
torch::Tensor ComputeOps::loss_scale() const {
  const auto parts = static_cast<double>(context_.plan.accumulation * context_.plan.world_size);
  return torch::full({}, 1.0 / parts, torch::kFloat32);
}

}  // namespace athanor
