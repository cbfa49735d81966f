// SPDX-License-Identifier: Apache-2.0
// Memory that a program takes once, before its first step, and bytes that its chunks take and move.
#pragma once

#include "sim/model/chunk_update.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <algorithm>
#include <cstdint>

namespace athanor {

/// Returns the bytes of state of `elements` elements beside their parameters: two moments and,
/// where parameters are bf16, the lower half of their fp32 master (executor/cpu/split_master.hpp).
[[nodiscard]] Bytes optimizer_state_bytes(std::int64_t elements, DataType dtype,
                                          AdamState adam_state) noexcept;

/// Returns the bytes of a version of a shard of `elements`: its parameters and its optimizer state.
/// Only the types of `program` matter.
[[nodiscard]] Bytes version_bytes(std::int64_t elements, const Program& program) noexcept;

/// Bytes that move for a shard that streams through the GPU. Its stream buffer holds, in this
/// order, its parameters, its state and its gradient. A read fills it; a write takes all but the
/// gradient.
struct StreamBytes {
  Bytes read = 0, written = 0;
};
/// Returns the bytes of a shard of `elements`; of `program` only its types matter.
[[nodiscard]] StreamBytes stream_bytes(std::int64_t elements, const Program& program) noexcept;

/// Bytes of a shard in the file and in a state buffer, in whole blocks: parameters, state and
/// gradient, in this order.
struct FileBytes {
  Bytes parameters = 0, state = 0, gradient = 0;
  [[nodiscard]] Bytes all() const noexcept { return parameters + state + gradient; }
};
/// Returns the bytes of a shard in the file; of `program` only its types matter.
[[nodiscard]] FileBytes file_bytes(std::int64_t elements, InFile in_file,
                                   const Program& program) noexcept;

/// Returns the bytes that a StateRead or StateWrite (by `lane`) moves for a shard of `elements`.
/// Only the types of `program` matter. AdamW writes no gradient.
[[nodiscard]] Bytes state_copy_bytes(Lane lane, std::int64_t elements, InFile in_file,
                                     const Program& program) noexcept;

/// Returns the number of elements of `chunk` whose gradient and optimizer state one rank holds. A
/// replicated chunk is whole on each rank, unless its shards belong to ranks.
[[nodiscard]] std::int64_t owned_elements(const Chunk& chunk, Sharding sharding, int world_size);

/// Fills Program::pools and pool_of from the layouts: one pool per unit class.
void make_pools(Program& program, const Architecture& architecture, const Plan& plan);

/// Fills Program::state_buffers, parameter_buffers, staged_gradients and stream_buffers, and the
/// bytes of each.
void make_state_buffers(Program& program, const Plan& plan);

/// Chunks of one version that a rank sends its peer.
struct SentChunks {
  std::int64_t chunks = 0;
  Bytes largest = 0, bytes = 0;  ///< size of the largest chunk, and of all
  void add(std::int64_t more_chunks, Bytes each) noexcept {
    chunks += more_chunks;
    largest = std::max(largest, each);
    bytes += more_chunks * each;
  }
};
/// Returns the number of buffers on the device through which so many chunks of a ward come.
[[nodiscard]] int receive_buffers(SnapshotSend send, std::int64_t chunks) noexcept;
/// Returns the bytes of all of them.
[[nodiscard]] Bytes receive_bytes(SnapshotSend send, const SentChunks& sent) noexcept;

/// Fills Program::receive_buffers, receive_buffer_bytes and receive_bytes.
void make_receive_buffers(Program& program, const Plan& plan);

/// Fills Program::static_buffers: cache slots, gradient buffers, parameters, gradient shards and
/// optimizer state. The parameter shard beside the optimizer is the master, or its upper half.
void make_static_buffers(Program& program, const Plan& plan);

}  // namespace athanor
