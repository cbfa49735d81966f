// SPDX-License-Identifier: Apache-2.0
#include "executor/train/optimizer_ops.hpp"

#include "executor/snapshot/redo_log.hpp"
#include "executor/snapshot/snapshot_log.hpp"

#include <algorithm>
#include <cassert>

namespace athanor {
namespace {

constexpr std::size_t kMatrixDimensions = 2;

/// Whether weight decay acts on it: on matrices and what has more dimensions. The tokens that an
/// image model adds (cls_token, mask_token) are vectors, though their shape is [.., 1, width].
bool decays_in(const Parameter& parameter) {
  return parameter.shape.size() >= kMatrixDimensions && !parameter.name.ends_with("_token");
}

/// Returns the parameters in this rank's shard as ranges from the shard's first element. Padding
/// belongs to no range.
std::vector<AdamSegment> segments_of(const Unit& unit, const UnitLayout& layout,
                                     const ChunkMemory& memory) {
  std::vector<AdamSegment> segments;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const std::int64_t first = layout.parameter_offsets[i] - memory.offset;
    const std::int64_t begin = std::max<std::int64_t>(first, 0);
    const std::int64_t end = std::min(first + unit.parameters[i].num_elements(), memory.elements);
    if (begin >= end) continue;
    const bool decays = decays_in(unit.parameters[i]);
    if (!segments.empty() && segments.back().end == begin && segments.back().decays == decays) {
      segments.back().end = end;
    } else {
      segments.push_back({begin, end, decays});
    }
  }
  return segments;
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

int OptimizerOps::threads_of(const Operation& op) const {
  return op.lane == Lane::CpuAdam ? context_.program.cpu_adam_threads
                                  : context_.plan.compute_threads;
}

void OptimizerOps::square_sum(std::int32_t operation, const StepState& state) const {
  const Operation& op = context_.program.operations.at(operation);
  const ChunkMemory& memory = context_.chunk_memory(op);
  const bool in_buffer = op.gradient_buffer >= 0;
  const std::byte* const gradient =
      in_buffer
          ? context_.memory.gradients(op.unit, op.gradient_buffer) + context_.bytes_of(memory.place)
          : memory.gradient;
  context_.device.square_sum(op.lane, gradient,
                             in_buffer ? context_.program.dtype : context_.program.gradient_dtype,
                             memory.elements, op.lane == Lane::CpuAdam ? threads_of(op) : 1,
                             state.scalars.square_sum(context_.program, operation));
}

void OptimizerOps::adam(const Operation& op, const StepState& state) const {
  static constexpr float kUnscaled = 1;
  const UpdateMemory memory = context_.memory.update_memory(op, state.step);
  const Home home = op.lane == Lane::CpuAdam ? Home::Host : Home::Gpu;
  const AdamWork work{
      .from = memory.from,
      .to = memory.to,
      .gradient = memory.gradient,
      .gradient_dtype = context_.program.gradient_dtype,
      .old_parameters = memory.old_parameters,
      .segments = segments_.at(op.unit).at(op.chunk),
      .coefficients = coefficients(state),
      .gradient_scale = op.speculative ? &kUnscaled : &state.scalars.clipping(home)->scale,
      .only_if_scaled = op.kind == OpKind::AdamRollback,
      .threads = threads_of(op)};
  if (context_.redo != nullptr) return context_.redo->update(op.unit, op.chunk, work);
  context_.device.adam(op.lane, work);
}

AdamCoefficients OptimizerOps::coefficients(const StepState& state) const {
  return {.learning_rate = state.learning_rate,
          .beta1 = static_cast<float>(options_.beta1),
          .beta2 = static_cast<float>(options_.beta2),
          .epsilon = static_cast<float>(options_.epsilon),
          .weight_decay = static_cast<float>(options_.weight_decay),
          .step = state.step + 1};
}

/// The number of the step is copied last, so that a mark with that number is whole. On a GPU all
/// copies are of the lane's stream, from the device: those do not hold up the host.
void OptimizerOps::note_gradients(const Operation& op, const StepState& state) const {
  Device& device = context_.device;
  const StepScalars& scalars = state.scalars;
  UpdateFacts* const facts = scalars.facts(Home::Gpu);
  *scalars.facts(Home::Host) = {.steps = state.step + 1, .coefficients = coefficients(state)};
  device.copy(op.lane, facts, scalars.facts(Home::Host), sizeof(UpdateFacts));
  if (context_.snapshot != nullptr) {
    const SnapshotMarkPlace mark = context_.snapshot->mark(state.step + 1);
    const std::span<double> losses = scalars.losses(Home::Gpu);
    device.copy(op.lane, mark.losses.data(), losses.data(),
                static_cast<Bytes>(losses.size_bytes()));
    device.copy(op.lane, mark.clipping, scalars.clipping(Home::Gpu), sizeof(ClippingResult));
    device.copy(op.lane, mark.coefficients, &facts->coefficients, sizeof(AdamCoefficients));
    device.copy(op.lane, mark.steps, &facts->steps, sizeof(facts->steps));
  }
  context_.collectives.all_gather(scalars.fence().data(), sizeof(double));
}

/// The losses and the norm are in pinned memory: this operation waits for both.
void OptimizerOps::note_version(const StepState& state) const {
  assert(context_.snapshot != nullptr);
  const StepScalars& scalars = state.scalars;
  context_.snapshot->note_version(state.step + 1, coefficients(state),
                                  *scalars.clipping(Home::Host), scalars.losses(Home::Host));
}

void OptimizerOps::note_start(const StepState& state) const {
  if (state.before != nullptr) note_version(*state.before);
}

void OptimizerOps::redo(std::int32_t unit, std::int32_t chunk, const SnapshotMark& mark) const {
  const ChunkMemory& memory = context_.memory.chunk(unit, chunk);
  context_.redo->update(unit, chunk,
                        {.from = memory.state,
                         .to = memory.state,
                         .gradient = memory.gradient,
                         .gradient_dtype = context_.program.gradient_dtype,
                         .segments = segments_.at(unit).at(chunk),
                         .coefficients = mark.coefficients,
                         .gradient_scale = &mark.clipping.scale,
                         .threads = context_.program.cpu_adam_threads});
}

}  // namespace athanor
