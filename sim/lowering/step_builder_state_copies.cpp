// SPDX-License-Identifier: Apache-2.0
// Copies of state on the device in host memory (Snapshot::Copy): when each chunk is copied, and
// what waits until all are whole. executor/snapshot/README.md says why that is enough.
#include "sim/lowering/static_memory.hpp"
#include "sim/lowering/step_builder.hpp"

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

/// Time of an access in forwards of its unit: backward computes twice as much, and may recompute.
std::int64_t relative_time(const Access& access, bool keeps) {
  if (!access.backward) return 1;
  return keeps ? 2 : 3;
}

}  // namespace

/// Copies follow in the order in which the last step updated the chunks on the device, and this one
/// will: of the first unit first.
void StepBuilder::plan_state_copies() {
  if (kind_ != StepKind::Training) return;
  bool updates_early = false;
  for (std::int32_t unit = 0; unit < num_units(); ++unit) {
    for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
      const Chunk& chunk = chunk_at(unit, c);
      updates_early |= has_versions(plan_, chunk) && updates_within_backward(plan_, chunk);
      if (!has_state_copies(plan_, chunk)) continue;
      const Bytes bytes = version_bytes(elements_held(unit, c), program_);
      state_copies_.waiting.push_back({unit, c, bytes});
      state_copies_.bytes += bytes;
    }
  }
  // An update of this step on the host writes over the version before the one that is copied.
  const auto is_last_backward = [this](const Access& access) {
    return access.backward && access.micro_batch + 1 == plan_.accumulation;
  };
  const auto end = updates_early ? std::ranges::find_if(order_, is_last_backward) : order_.end();
  state_copies_.before_gradients = updates_early;
  state_copies_.end = static_cast<std::size_t>(end - order_.begin());
  // The last access is left to what is sent to the peer.
  const auto last = sends_to_peer() && end - order_.begin() > 1 ? end - 1 : end;
  for (auto access = order_.begin(); access != last; ++access) {
    state_copies_.time += relative_time(*access, keeps(access->unit));
  }
}

bool StepBuilder::copies_state() const { return state_copies_.bytes > 0; }

/// Spreads the copies evenly over the accesses that have time for them, so that others on the lane
/// wait little: outputs, and gradients of state on the host. What has been copied is sent to the
/// peer an access later, so that collectives behind it do not wait for the copy.
void StepBuilder::continue_state_copies(std::size_t position) {
  StateCopies& copies = state_copies_;
  if (!copies_state() || position >= copies.end) return;
  if (plan_.snapshot_send != SnapshotSend::Naive) send_state_copies();
  const Access& access = order_[position];
  copies.time_passed += relative_time(access, keeps(access.unit));
  while (copies.next < copies.waiting.size() &&
         copies.bytes_emitted * copies.time < copies.bytes * copies.time_passed) {
    emit_next_state_copy();
  }
  if (copies.before_gradients && position + 1 == copies.end) emit_mark_of_start();
}

void StepBuilder::emit_next_state_copy() {
  const StateCopies::Copy& copy = state_copies_.waiting[state_copies_.next++];
  state_copies_.bytes_emitted += copy.bytes;
  emit_state_copy(copy.unit, copy.chunk, copy.bytes);
}

/// Blocking sends have sent each copy at once.
void StepBuilder::send_state_copies() {
  StateCopies& copies = state_copies_;
  if (!sends_to_peer() || plan_.snapshot_send == SnapshotSend::Blocking) return;
  for (; copies.sent < copies.next; ++copies.sent) {
    emit_peer_copy(copies.waiting[copies.sent].unit, copies.waiting[copies.sent].chunk);
  }
}

/// A unit whose optimizer is sharded is gathered over its own shard, too.
void StepBuilder::emit_state_copy(std::int32_t unit, std::int32_t chunk, Bytes bytes) {
  Operation op = chunk_operation(OpKind::StateD2H, Lane::D2H, unit, chunk);
  op.bytes = bytes;
  const std::int32_t copy = emit(std::move(op));
  update_waits_.push_back({copy, unit, chunk, false});
  state_of(unit, chunk).copied = copy;
  if (state_copies_.first < 0) state_copies_.first = copy;
  state_copies_.last = copy;
}

/// Comes before the CPU's first update on its lane. It keeps losses and norm of the step before.
/// The mark of the peer's copy follows: so a gate behind both says that all ranks have both.
void StepBuilder::emit_mark_of_start() {
  if (mark_ >= 0) return;
  Operation mark;
  mark.kind = OpKind::Mark;
  mark.lane = Lane::CpuAdam;
  mark.of_start = true;
  mark.waits.push_back(state_copies_.last);
  mark_ = emit(std::move(mark));
  if (!sends_to_peer()) return;
  send_state_copies();
  emit_peer_mark();
}

/// Whether the losses follow the mark of the version from which the step starts, so that a rank has
/// them only when all ranks have that mark.
bool StepBuilder::marks_before_losses() const {
  return copies_state() && !state_copies_.before_gradients;
}

/// The operation that says on every rank that all have marked the version from which the step
/// starts: a collective, unless there is one rank.
std::int32_t StepBuilder::all_ranks_marked() const {
  if (plan_.world_size == 1) return mark_;
  return state_copies_.before_gradients ? state_copies_.first_reduce : loss_;
}

}  // namespace athanor
