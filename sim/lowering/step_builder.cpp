// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/step_builder.hpp"

#include "sim/lowering/schedule_order.hpp"
#include "sim/lowering/static_memory.hpp"

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

std::vector<std::vector<std::int32_t>> uses_of(
    const std::vector<std::int32_t>& visit_units,
    const std::vector<std::vector<std::int32_t>>& cached) {
  std::vector<std::vector<std::int32_t>> uses(cached.size());
  for (std::size_t visit = 0; visit < visit_units.size(); ++visit) {
    for (const std::int32_t unit : cached[static_cast<std::size_t>(visit_units[visit])]) {
      uses[static_cast<std::size_t>(unit)].push_back(static_cast<std::int32_t>(visit));
    }
  }
  return uses;
}

std::vector<std::int32_t> units_by_visit(const std::vector<Access>& order) {
  std::vector<std::int32_t> units(static_cast<std::size_t>(order.back().visit) + 1);
  for (const Access& access : order) units[static_cast<std::size_t>(access.visit)] = access.unit;
  return units;
}

std::vector<int> slots_of(const Program& program) {
  std::vector<int> slots;
  for (const UnitPool& pool : program.pools) slots.push_back(pool.slots);
  return slots;
}

}  // namespace

StepBuilder::StepBuilder(const Profile& profile, const Plan& plan, Program program, StepKind kind)
    : profile_(profile),
      plan_(plan),
      kind_(kind),
      program_(std::move(program)),
      order_(kind == StepKind::Training ? access_order(profile.architecture, plan)
                                        : evaluation_order(profile.architecture, plan)),
      cached_(cached_units(profile.architecture, plan)),
      visit_units_(units_by_visit(order_)),
      cache_(program_.pool_of, slots_of(program_), uses_of(visit_units_, cached_),
             plan.schedule.eviction),
      units_(profile.architecture.units.size()),
      visit_operations_(visit_units_.size(), -1),
      saved_(units_.size() * static_cast<std::size_t>(plan.micro_batch_group), -1),
      outputs_(saved_),
      grad_inputs_(saved_),
      output_copies_(saved_),
      batches_(static_cast<std::size_t>(plan.micro_batch_group), -1),
      state_buffers_(program_.state_buffers),
      stream_buffers_(program_.stream_buffers),
      parameter_buffers_(program_.parameter_buffers),
      staged_gradients_(program_.staged_gradients),
      receive_buffers_(program_.receive_buffers) {
  square_sums_.fill(-1);
  for (const UnitPool& pool : program_.pools) {
    gradients_.emplace_back(pool.gradient_buffers);
    accumulators_.emplace_back(pool.accumulators);
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    units_[u].chunks.resize(program_.layouts[u].chunks.size());
  }
  plan_state_copies();
}

Program StepBuilder::build() {
  reserve_operations();
  begin_peer_copies();
  for (std::size_t position = 0; position < order_.size(); ++position) {
    const Access& access = order_[position];
    if (position == 0 || order_[position - 1].visit != access.visit) begin_visit(access);
    compute(position);
  }
  finish_step();
  resolve_previous_waits();
  order_by_schedule(program_, plan_.schedule);
  return std::move(program_);
}

void StepBuilder::begin_visit(const Access& first) {
  if (first.backward) take_accumulator(first);
  fetch_ahead(first.visit);
}

/// Units compute, recompute and copy their outputs; each chunk is read, fetched and gathered for
/// forward and for backward, reduced and copied to the host in every micro-batch, written, squared,
/// updated between a read and a write of its state or after a copy, sent back and published in
/// every step, at most.
void StepBuilder::reserve_operations() {
  constexpr std::size_t kPerMicroBatch = 8, kPerStep = 9;
  std::size_t chunks = 0;
  for (const UnitLayout& layout : program_.layouts) chunks += layout.chunks.size();
  const auto micro_batches = static_cast<std::size_t>(plan_.accumulation);
  program_.operations.reserve(2 * order_.size() +
                              chunks * (kPerMicroBatch * micro_batches + kPerStep));
}

Operation StepBuilder::chunk_operation(OpKind kind, Lane lane, std::int32_t unit,
                                       std::int32_t chunk) {
  Operation op;
  op.kind = kind;
  op.lane = lane;
  op.unit = unit;
  op.chunk = chunk;
  return op;
}

std::int32_t StepBuilder::emit(Operation operation) {
  program_.operations.push_back(std::move(operation));
  return static_cast<std::int32_t>(program_.operations.size()) - 1;
}

std::int32_t StepBuilder::emit_fill(Ring& ring, Operation operation) {
  const std::int32_t emptied_by = ring.emptied_by[ring.next()];
  if (emptied_by >= 0) operation.waits.push_back(emptied_by);
  return ring.filled_by.emplace_back(emit(std::move(operation)));
}

Operation& StepBuilder::at(std::int32_t operation) {
  return program_.operations[static_cast<std::size_t>(operation)];
}

const UnitPlan& StepBuilder::unit_plan(std::int32_t unit) const {
  return plan_.units[static_cast<std::size_t>(unit)];
}

StepBuilder::UnitState& StepBuilder::state(std::int32_t unit) {
  return units_[static_cast<std::size_t>(unit)];
}

const std::vector<Chunk>& StepBuilder::chunks(std::int32_t unit) const {
  return program_.layouts[static_cast<std::size_t>(unit)].chunks;
}

const Chunk& StepBuilder::chunk_at(std::int32_t unit, std::int32_t chunk) const {
  return chunks(unit)[static_cast<std::size_t>(chunk)];
}

std::int32_t StepBuilder::chunk_count(std::int32_t unit) const {
  return static_cast<std::int32_t>(chunks(unit).size());
}

std::int32_t StepBuilder::num_units() const { return static_cast<std::int32_t>(units_.size()); }

std::int64_t StepBuilder::elements_held(std::int32_t unit, std::int32_t chunk) const {
  return owned_elements(chunk_at(unit, chunk), unit_plan(unit).sharding, plan_.world_size);
}

StepBuilder::ChunkState& StepBuilder::state_of(std::int32_t unit, std::int32_t chunk) {
  return state(unit).chunks[static_cast<std::size_t>(chunk)];
}

const UnitCost& StepBuilder::cost(std::int32_t unit) const {
  return profile_.cost(profile_.architecture.units[static_cast<std::size_t>(unit)].unit_class,
                       plan_.micro_batch);
}

bool StepBuilder::keeps(std::int32_t unit) const {
  if (kind_ == StepKind::Evaluation) return false;
  const bool last = unit + 1 == static_cast<std::int32_t>(units_.size());
  return last || unit_plan(unit).activation == Activation::Keep;
}

/// The next unit has to recompute too, or its graph would hold its input. The output is dropped
/// when the second unit after this one has run forward, and taken again before that unit's
/// backward: where that is the last one, nothing would come between.
bool StepBuilder::offloads(std::int32_t unit) const {
  const auto num_units = static_cast<std::int32_t>(units_.size());
  return kind_ == StepKind::Training && unit + 3 < num_units &&
         unit_plan(unit).activation == Activation::Offload && !keeps(unit + 1);
}

std::array<std::int32_t, kNumLanes> StepBuilder::last_updates() {
  std::array<std::int32_t, kNumLanes> last{};
  last.fill(-1);
  for (const UnitState& unit : units_) {
    for (const ChunkState& chunk : unit.chunks) {
      std::int32_t& of_lane = last[lane_index(at(chunk.adam).lane)];
      of_lane = std::max(of_lane, chunk.adam);
    }
  }
  return last;
}

void StepBuilder::resolve_previous_waits() {
  const auto wait = [this](std::int32_t operation, std::int32_t previous) {
    // Lanes are in order, across steps too.
    if (previous < 0 || at(operation).lane == at(previous).lane) return;
    at(operation).previous_waits.push_back(previous);
  };
  for (const FirstFill& fill : first_fills_) {
    const auto& slot = cache_.pool(fill.pool)[static_cast<std::size_t>(fill.slot)];
    for (const std::int32_t operation : fill.operations) {
      wait(operation, visit_operations_[static_cast<std::size_t>(slot.last_access)]);
    }
  }
  for (const auto* const pools : {&gradients_, &accumulators_}) {
    for (const GradientPool& pool : *pools) {
      for (const GradientPool::Buffer& buffer : pool.buffers()) {
        if (buffer.first_user < 0) continue;
        for (const std::int32_t drained : buffer.drained_by) wait(buffer.first_user, drained);
      }
    }
  }
  for (const UpdateWait& update : update_waits_) {
    const ChunkState& chunk = state_of(update.unit, update.chunk);
    wait(update.operation, update.adam_only ? chunk.adam : chunk.updated);
  }
  if (copies_state()) {
    wait(mark_, loss_);
    if (norm_ >= 0) wait(mark_, norm_);
    wait(state_copies_.first, all_ranks_marked());
  } else if (first_reduce_ >= 0) {
    // A gradient that ranks have reduced says that all of them have their marks of the step before.
    wait(first_reduce_, mark_);
  }
  if (peer_mark_ >= 0 && !copies_state()) wait(peer_mark_, mark_);
  if (plan_.snapshot_send == SnapshotSend::Blocking) {
    for (const std::int32_t first : {state_copies_.first, first_peer_copy_}) {
      if (first < 0) continue;
      for (const std::int32_t update : last_updates()) wait(first, update);
      if (!copies_state()) wait(first, mark_);
    }
  }
  // State that was in the buffer last was written after the chunk's own: lanes are in order.
  for (const Ring* const ring : {&state_buffers_, &stream_buffers_, &parameter_buffers_,
                                 &staged_gradients_, &receive_buffers_}) {
    // An evaluation fills no buffer of state or gradients, and perhaps not every one of parameters.
    const std::size_t used = std::min(ring->emptied_by.size(), ring->filled_by.size());
    for (std::size_t i = 0; i < used; ++i) wait(ring->filled_by[i], ring->emptied_by[i]);
  }
}

}  // namespace athanor
