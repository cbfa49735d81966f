// SPDX-License-Identifier: Apache-2.0
// Copies of a version of the state in the memory of the rank's peer: when each chunk is sent, and
// through which buffer the ward's comes.
#include "sim/lowering/static_memory.hpp"
#include "sim/lowering/step_builder.hpp"

#include <utility>

namespace athanor {

bool StepBuilder::sends_to_peer() const {
  return kind_ == StepKind::Training && plan_.snapshot_copies > 1;
}

/// Sends the version from which this step started: an update of this step leaves it as it is, and
/// one of the next step waits for a reduction that follows on this lane. No gradient is reduced
/// before the mark, or with copies of state on the device none whose update writes over a version:
/// so all ranks' copies of a version are whole before any rank writes over the version before.
void StepBuilder::begin_peer_copies() {
  if (!sends_to_peer() || plan_.snapshot_send != SnapshotSend::Blocking) return;
  for (std::int32_t unit = 0; unit < num_units(); ++unit) emit_peer_copies(unit);
  if (copies_state()) return emit_mark_of_start();
  emit_peer_mark();
}

/// Comes after the unit's first forward, so that collectives for which a forward waits go first.
void StepBuilder::continue_peer_copies(std::int32_t unit) {
  if (!sends_to_peer() || plan_.snapshot_send == SnapshotSend::Blocking) return;
  const bool is_last = unit + 1 == num_units();
  if (plan_.snapshot_send != SnapshotSend::Naive) {
    emit_peer_copies(unit);
  } else if (is_last) {
    for (std::int32_t u = 0; u < num_units(); ++u) emit_peer_copies(u);
  }
  if (is_last && !copies_state()) emit_peer_mark();
}

/// State on the device is sent once it is on the host. Blocking sends bring it there themselves.
void StepBuilder::emit_peer_copies(std::int32_t unit) {
  const bool blocks = plan_.snapshot_send == SnapshotSend::Blocking;
  for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
    const bool on_device = has_state_copies(plan_, chunk_at(unit, c));
    if (on_device && blocks) emit_next_state_copy();
    if (!on_device || blocks) emit_peer_copy(unit, c);
  }
}

void StepBuilder::emit_peer_copy(std::int32_t unit, std::int32_t chunk) {
  if (!has_peer_copy(plan_, chunk_at(unit, chunk), unit_plan(unit).sharding)) return;
  Operation op = chunk_operation(OpKind::PeerCopy, Lane::Collective, unit, chunk);
  op.bytes = version_bytes(elements_held(unit, chunk), program_);
  const std::int32_t copied = state_of(unit, chunk).copied;
  if (copied >= 0) op.waits.push_back(copied);
  const std::int32_t copy = plan_.snapshot_send == SnapshotSend::Direct
                                ? emit(std::move(op))
                                : emit_peer_copy_and_store(std::move(op));
  if (copied < 0) update_waits_.push_back({copy, unit, chunk, true});
  if (first_peer_copy_ < 0) first_peer_copy_ = copy;
}

/// A chunk is sent when the buffer is empty that it comes into: every rank runs the same program.
std::int32_t StepBuilder::emit_peer_copy_and_store(Operation copy) {
  const std::size_t buffer = receive_buffers_.next();
  copy.receive_offset = plan_.snapshot_send == SnapshotSend::Naive
                            ? received_bytes_
                            : static_cast<Bytes>(buffer) * program_.receive_buffer_bytes;
  received_bytes_ += copy.bytes;
  Operation store = chunk_operation(OpKind::PeerStore, Lane::D2H, copy.unit, copy.chunk);
  store.bytes = copy.bytes;
  store.receive_offset = copy.receive_offset;
  const std::int32_t index = emit_fill(receive_buffers_, std::move(copy));
  store.waits.push_back(index);
  receive_buffers_.emptied_by[buffer] = last_peer_store_ = emit(std::move(store));
  return index;
}

void StepBuilder::emit_peer_mark() {
  Operation mark;
  mark.kind = OpKind::PeerMark;
  mark.lane = Lane::Collective;
  mark.bytes = static_cast<Bytes>(sizeof(std::int64_t));
  if (last_peer_store_ >= 0) mark.waits.push_back(last_peer_store_);
  if (copies_state()) mark.waits.push_back(mark_);
  peer_mark_ = emit(std::move(mark));
}

}  // namespace athanor
