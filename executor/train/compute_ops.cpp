// SPDX-License-Identifier: Apache-2.0
#include "executor/train/compute_ops.hpp"

#include "executor/units/arena_scope.hpp"
#include "executor/units/torch_types.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace athanor {

namespace {

/// Makes what this rank runs of a unit whose activations travel. `part` is what it holds.
std::shared_ptr<UnitModule> make_part(const Model& model, const Plan& plan, std::size_t index,
                                      const Unit& part, int rank) {
  const UnitPlan& unit = plan.units[index];
  std::shared_ptr<UnitModule> module;
  if (model.part_unit) {
    module = model.part_unit(static_cast<int>(index), part,
                             {unit.pattern, rank, plan.world_size, unit.capacity});
  }
  if (module != nullptr) return module;
  throw Error(fmt::format("unit {}: the model has no such unit under pattern \"{}\"",
                          model.architecture.units[index].name, unit.pattern->name()));
}

/// Returns what this rank holds of a unit whose activations travel, and puts its module into the
/// model.
Unit take_part(Model& model, const Plan& plan, std::size_t index, int rank) {
  const Unit& unit = model.architecture.units[index];
  const UnitPlan& unit_plan = plan.units[index];
  if (unit_plan.pattern->exchanges().empty()) return unit;
  Unit part = part_of_rank(unit, *unit_plan.pattern, rank, plan.world_size);
  model.units[index] = make_part(model, plan, index, part, rank);
  return part;
}

/// Whether the program is one step of many, of which the second is worth recording.
bool records_phases(const Program& program) {
  return std::ranges::any_of(program.operations,
                             [](const Operation& op) { return op.kind == OpKind::Backward; });
}

}  // namespace

std::vector<UnitRunner> make_unit_runners(Model& model, const Plan& plan, const Program& program,
                                          int rank, const Device& device) {
  std::vector<UnitRunner> runners;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit part = take_part(model, plan, i, rank);
    runners.emplace_back(model.units[i], part, program.layouts[i].held_elements, program.dtype,
                         torch_device(device.index()));
    runners.back().set_deterministic(plan.deterministic);
  }
  return runners;
}

ComputeOps::ComputeOps(const RankContext& context, const Architecture& architecture,
                       std::vector<UnitRunner>& runners, BatchSource batches)
    : context_(context),
      device_(torch_device(context.device.index())),
      batches_(std::move(batches)),
      bindings_(bind_compute_operations(architecture, context.program)),
      runners_(runners),
      members_(static_cast<std::size_t>(context.plan.micro_batch_group), Member(runners.size())),
      phases_(context.plan.cuda_graphs ? context.device.recorder() : nullptr,
              records_phases(context.program), context.program.operations.size()) {
  if (phases_.records()) {
    placed_.resize(context.program.operations.size());
    recorded_losses_ = context.device.allocate_uncounted(context.plan.accumulation *
                                                         static_cast<Bytes>(sizeof(double)));
  }
  for (const Unit& unit : architecture.units) {
    has_attention_.push_back(unit.forward_flops_per_token_per_context > 0);
  }
  const auto& operations = context.program.operations;
  const auto first = std::ranges::find_if(operations, [&](const Operation& op) {
    return op.kind == OpKind::Forward && op.stages > 1 && sends_tokens(op);
  });
  if (first != operations.end()) {
    first_departure_ = static_cast<std::int32_t>(first - operations.begin());
  }
}

/// Whether the operation's unit sends each rank some rows alone, so that others may have no room.
bool ComputeOps::sends_tokens(const Operation& op) const {
  return context_.plan.units[static_cast<std::size_t>(op.unit)].capacity > 0;
}

/// Runs a phase at once, or as it was recorded. What it then does not do itself is where it puts
/// outputs that visit the host.
void ComputeOps::run(std::int32_t operation, const std::function<void()>& work) {
  if (!phases_.records()) {
    phases_.run(operation, work);
    return;
  }
  std::vector<PlacedOutput>& placed = placed_.at(static_cast<std::size_t>(operation));
  const bool ran = phases_.run(operation, [&] {
    placed.clear();
    placed_by_now_ = &placed;
    work();
    placed_by_now_ = nullptr;
  });
  if (ran) return;
  for (const PlacedOutput& output : placed) *output.output = output.place;
}

void ComputeOps::forward(std::int32_t operation, const StepState& state) {
  const Operation& op = context_.program.operations.at(operation);
  if (bindings_.at(operation).begins_micro_batch) load_batch(op, state);
  run(operation, [&] { forward_phase(operation, state); });
  const bool is_last = static_cast<std::size_t>(op.unit) + 1 == runners_.size();
  if (!is_last || !phases_.records()) return;
  context_.device.copy(Lane::Compute, state.scalars.loss(op.micro_batch),
                       recorded_loss(op.micro_batch), sizeof(double));
}

double* ComputeOps::recorded_loss(std::int32_t micro_batch) const {
  return reinterpret_cast<double*>(recorded_losses_.get()) + micro_batch;
}

void ComputeOps::forward_phase(std::int32_t operation, const StepState& state) {
  const Operation& op = context_.program.operations.at(operation);
  const ComputeBinding& binding = bindings_.at(operation);
  const auto unit = static_cast<std::size_t>(op.unit);
  bind(binding);
  const ArenaScope scope(context_.device.arena());
  Member& member = member_of(op);
  UnitActivations& activations = member.activations[unit];
  if (unit > 0 && op.stage == 0) {
    activations.input =
        std::exchange(member.activation_or_gradient, torch::Tensor()).detach().requires_grad_();
  }
  member.activation_or_gradient = run_forward(operation, op.keep);
  if (op.stages > 1 && op.stage == 0 && sends_tokens(op)) note_rows(operation, state);
  if (!ends_phase(op)) return;
  if (binding.output_leaves) keep_output(member, unit);
  drop_and_take_outputs(binding);
  if (unit + 1 < runners_.size()) return;
  // The loss is read when the step is done; nothing waits for it. Each step has another place for
  // its losses. A recorded phase writes to one place, from which its step copies the loss.
  put_loss(member,
           phases_.records() ? recorded_loss(op.micro_batch) : state.scalars.loss(op.micro_batch));
  if (binding.ends_micro_batch) forget_batch(member);
}

void ComputeOps::put_loss(Member& member, double* loss) const {
  torch::from_blob(loss, {}, torch::TensorOptions().dtype(torch::kFloat64).device(device_))
      .copy_(std::exchange(member.activation_or_gradient, torch::Tensor()), /*non_blocking=*/true);
}

/// Frees the batch. Recorded phases read the next one where this one lies.
void ComputeOps::forget_batch(Member& member) const {
  if (!phases_.records()) member.batch = {};
}

void ComputeOps::recompute(std::int32_t operation) {
  run(operation, [&] {
    bind(bindings_.at(operation));
    const ArenaScope scope(context_.device.arena());
    // The graph alone needs the output; activation_or_gradient already holds a gradient.
    static_cast<void>(run_forward(operation, /*keep=*/true));
  });
}

/// Runs a whole forward, or one of its stages.
torch::Tensor ComputeOps::run_forward(std::int32_t operation, bool keep) {
  const Operation& op = context_.program.operations.at(operation);
  const auto unit = static_cast<std::size_t>(op.unit);
  Member& member = member_of(op);
  UnitActivations& activations = member.activations[unit];
  if (op.stages == 1) return runners_[unit].forward(activations, member.batch, keep);
  return runners_[unit].forward_stage(op.stage, activations, member.batch, keep);
}

/// Notes how many rows more than there is room for would travel. Like a loss it is read when the
/// step is done, and nothing waits for it.
void ComputeOps::note_rows(std::int32_t operation, const StepState& state) {
  const Operation& op = context_.program.operations.at(operation);
  const auto unit = static_cast<std::size_t>(op.unit);
  const torch::Tensor most = member_of(op).activations[unit].journey.departure.slots.most;
  const torch::Tensor excess =
      most.to(torch::kFloat64) - static_cast<double>(context_.plan.units[unit].capacity);
  const torch::Tensor noted =
      torch::from_blob(state.scalars.excess_rows_slot(), {},
                       torch::TensorOptions().dtype(torch::kFloat64).device(device_));
  const bool is_first = operation == first_departure_;
  noted.copy_(is_first ? excess : torch::maximum(noted, excess), /*non_blocking=*/true);
}

std::vector<TravellingBytes> ComputeOps::travels(std::int32_t operation) const {
  const Operation& op = context_.program.operations.at(operation);
  // The first exchange of a phase is a dispatch or a gather, forward and backward.
  const bool is_first = op.kind == OpKind::Dispatch || op.kind == OpKind::ActivationGather;
  const int stage = is_first ? 0 : 1;
  const UnitActivations& activations =
      members_.at(op.member).activations[static_cast<std::size_t>(op.unit)];
  std::vector<TravellingBytes> travels;
  for (const Travel& travel : UnitRunner::travels(stage, op.backward, activations)) {
    travels.push_back({static_cast<std::byte*>(travel.from.mutable_data_ptr()),
                       static_cast<std::byte*>(travel.to.mutable_data_ptr()),
                       static_cast<Bytes>(std::max(travel.from.nbytes(), travel.to.nbytes()))});
  }
  return travels;
}

/// Notes where the output lies. The copy to the host reads the memory as it is.
void ComputeOps::keep_output(Member& member, std::size_t unit) {
  const torch::Tensor& output = member.activation_or_gradient;
  if (!output.is_contiguous()) {
    throw Error(
        fmt::format("unit {}: its output is not contiguous, so it cannot go to the host; "
                    "end its forward() with .contiguous()",
                    context_.program.unit_names[unit]));
  }
  place_output(
      member, unit,
      {static_cast<std::byte*>(output.mutable_data_ptr()), static_cast<Bytes>(output.nbytes())});
  member.dropped[unit + 1] = {output.sizes().vec(), output.options()};
}

/// Frees and allocates the inputs that visit the host; a unit's output is the next unit's input.
/// The graph that a recompute makes starts from the new tensor, which then holds the old one's
/// values.
void ComputeOps::drop_and_take_outputs(const ComputeBinding& binding) {
  if (const auto& [unit, member] = binding.drops_output; unit >= 0) {
    members_.at(member).activations.at(unit + 1).input.reset();
  }
  if (binding.takes_output.unit < 0) return;
  Member& member = members_.at(binding.takes_output.member);
  const auto unit = static_cast<std::size_t>(binding.takes_output.unit);
  torch::Tensor& input = member.activations[unit + 1].input;
  const TensorShape& shape = member.dropped[unit + 1];
  input = torch::empty(shape.sizes, shape.options).requires_grad_();
  place_output(
      member, unit,
      {static_cast<std::byte*>(input.mutable_data_ptr()), static_cast<Bytes>(input.nbytes())});
}

void ComputeOps::place_output(Member& member, std::size_t unit, DeviceOutput place) {
  member.outputs[unit] = place;
  if (placed_by_now_ != nullptr) placed_by_now_->push_back({&member.outputs[unit], place});
}

void ComputeOps::backward(std::int32_t operation) {
  run(operation, [&] { backward_phase(operation); });
}

void ComputeOps::backward_phase(std::int32_t operation) {
  const Operation& op = context_.program.operations.at(operation);
  const ComputeBinding& binding = bindings_.at(operation);
  const auto unit = static_cast<std::size_t>(op.unit);
  bind(binding);
  bind_gradients(binding);
  const ArenaScope scope(context_.device.arena());
  Member& member = member_of(op);
  torch::Tensor& gradient = member.activation_or_gradient;
  if (unit + 1 == runners_.size()) gradient = loss_scale();
  UnitActivations& activations = member.activations[unit];
  gradient = op.stages == 1
                 ? runners_[unit].backward(activations, std::move(gradient))
                 : runners_[unit].backward_stage(op.stage, activations, std::move(gradient));
  if (!ends_phase(op)) return;
  member.activations[unit] = {};
  drop_and_take_outputs(binding);
  if (binding.ends_micro_batch) {
    gradient.reset();
    forget_batch(member);
  }
}

void ComputeOps::bind(const ComputeBinding& binding) {
  for (const UnitBinding& unit : binding.units) {
    runners_.at(unit.unit).bind_parameters(context_.memory.parameters(unit.unit, unit.slot));
  }
}

void ComputeOps::bind_gradients(const ComputeBinding& binding) {
  for (const UnitBinding& unit : binding.units) {
    std::byte* const buffer = context_.memory.gradients(unit.unit, unit.gradient_buffer);
    if (unit.clear_gradients) {
      context_.device.clear(Lane::Compute, buffer, context_.memory.gradient_bytes(unit.unit));
    }
    runners_.at(unit.unit).bind_gradients(buffer);
  }
}

// The source makes its tensors in host memory; the copy is what the device holds.
void ComputeOps::load_batch(const Operation& op, const StepState& state) {
  const Plan& plan = context_.plan;
  const std::int64_t micro_batch =
      (state.step * plan.accumulation + op.micro_batch) * plan.world_size +
      context_.collectives.rank();
  Batch host = batches_(micro_batch * plan.micro_batch, plan.micro_batch);
  if (host.packing) require_own_documents();
  if (host.packing && host.packing->mean_targets == 0) {
    host.packing->mean_targets = mean_targets(*host.packing, state.step);
  }
  put_batch(member_of(op).batch, std::move(host));
}

/// Puts a batch on the device: where the one before lay, if recorded phases read it there.
void ComputeOps::put_batch(Batch& batch, Batch host) const {
  if (phases_.records() && host.packing) {
    throw InputError("plan:cuda_graphs", "true, and documents share sequences, each time otherwise",
                     "Train with --cuda-graphs off.");
  }
  if (phases_.records() && batch.inputs.defined()) {
    batch.inputs.copy_(host.inputs.pin_memory(), /*non_blocking=*/true);
    if (batch.targets.defined()) {
      batch.targets.copy_(host.targets.pin_memory(), /*non_blocking=*/true);
    }
    return;
  }
  const ArenaScope scope(context_.device.arena());
  batch = {to_device(host.inputs), to_device(host.targets), std::move(host.packing)};
  if (!batch.packing) return;
  batch.packing->ignored = to_device(batch.packing->ignored);
  batch.packing->positions = to_device(batch.packing->positions);
}

/// Refuses documents that share sequences where attention works on the sequences of all ranks: a
/// rank knows where documents begin in its own alone.
void ComputeOps::require_own_documents() const {
  for (std::size_t u = 0; u < context_.plan.units.size(); ++u) {
    const UnitPattern& pattern = *context_.plan.units[u].pattern;
    const std::vector<Exchange> exchanges = pattern.exchanges();
    const bool gathers = std::ranges::find(exchanges, Exchange::Gather) != exchanges.end();
    if (!gathers || !has_attention_[u]) continue;
    throw InputError(
        fmt::format("plan:units[{}].pattern", u),
        fmt::format("\"{}\" of attention does not go with packed documents", pattern.name()),
        "Let its weights travel (the perceptron's tensors may be split), or train on "
        "one document a sequence.");
  }
}

// It follows from the data of the whole step alone, so ranks and micro-batches agree without a
// message.
double ComputeOps::mean_targets(const Packing& packing, std::int64_t step) const {
  const std::int64_t samples = context_.plan.global_batch();
  const std::int64_t targets = packing.num_targets(step * samples, samples);
  return static_cast<double>(targets) /
         static_cast<double>(context_.plan.accumulation * context_.plan.world_size);
}

/// Copies from pinned memory, so that the host does not wait.
torch::Tensor ComputeOps::to_device(const torch::Tensor& tensor) const {
  if (!tensor.defined()) return {};
  return device_.is_cpu() ? tensor.clone() : tensor.pin_memory().to(device_, /*non_blocking=*/true);
}

// Scaling here makes every later reduction a plain sum.
torch::Tensor ComputeOps::loss_scale() const {
  const auto parts = static_cast<double>(context_.plan.accumulation * context_.plan.world_size);
  return torch::full({}, 1.0 / parts,
                     torch::TensorOptions().dtype(torch::kFloat32).device(device_));
}

}  // namespace athanor
