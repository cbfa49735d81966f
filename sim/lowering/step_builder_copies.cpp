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
/// before the mark: so all ranks' copies of a version are whole before any rank writes over the
/// version before.
void StepBuilder::begin_peer_copies() {
  if (!sends_to_peer() || plan_.snapshot_send != SnapshotSend::Blocking) return;
  for (std::int32_t unit = 0; unit < num_units(); ++unit) emit_peer_copies(unit);
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
  if (is_last) emit_peer_mark();
}

void StepBuilder::emit_peer_copies(std::int32_t unit) {
  for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
    if (!has_peer_copy(plan_, chunk_at(unit, c), unit_plan(unit).sharding)) continue;
    Operation op = chunk_operation(OpKind::PeerCopy, Lane::Collective, unit, c);
    op.bytes = version_bytes(elements_held(unit, c), program_);
    const std::int32_t copy = plan_.snapshot_send == SnapshotSend::Direct
                                  ? emit(std::move(op))
                                  : emit_peer_copy_and_store(std::move(op));
    update_waits_.push_back({copy, unit, c, true});
    if (first_peer_copy_ < 0) first_peer_copy_ = copy;
  }
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
  peer_mark_ = emit(std::move(mark));
}

}  // namespace athanor
