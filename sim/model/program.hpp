// SPDX-License-Identifier: Apache-2.0
// Program: one training step of one rank as operations on lanes. Every rank runs the same program.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/tier.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

/// Kinds of operations, a closed set.
enum class OpKind {
  ParamRead,  ///< nvme-read: a shard's parameters, file -> staging buffer
  Fetch,      ///< h2d: this rank's shard of a chunk, host memory or staging buffer -> its
              ///< part of the slot
  Gather,     ///< collective: shards -> the whole chunk, in the slot or in the replicated storage
  Forward,    ///< compute: one unit, one micro-batch
  Recompute,  ///< compute: forward again, from the saved input
  Backward,   ///< compute: adds parameter gradients into the unit's gradient buffer
  OutputD2H,  ///< d2h: a unit's output -> pinned memory
  OutputH2D,  ///< h2d: back, into the next unit's input
  Reduce,     ///< collective: gradients of a chunk, reduce-scatter or all-reduce (sum), in place
  GradAdd,    ///< collective or compute: the reduced shard -> accumulator (written or added)
  GradH2D,    ///< h2d: host gradient, the sum of earlier groups -> accumulator
  GradD2H,  ///< d2h: the reduced shard -> host gradient (written or added), or gradient buffer; or
            ///< accumulator -> host gradient
  GradWrite,     ///< nvme-write: gradient buffer -> file
  SquareSum,     ///< compute, cpu-adam or collective: sum of squares of a shard's gradient
  Norm,          ///< collective: the global norm from all square sums
  Fence,         ///< collective: this rank notes that its gradients are all in host memory, and
                 ///< waits until every rank has noted it
  Adam,          ///< compute or cpu-adam: AdamW on a shard; writes the shard's parameters
  AdamRollback,  ///< cpu-adam: Adam again from the old state, where the norm asks for clipping
  Mark,          ///< cpu-adam: this rank notes that a version of its state is whole in host memory
  ParamH2D,      ///< h2d: updated shard -> its home on the device
  StateRead,     ///< nvme-read: a shard's optimizer state, and its gradient if that is there too,
                 ///< file -> state buffer; or h2d: state and gradient, host memory -> stream buffer
  StateWrite,  ///< nvme-write: state after Adam -> file, with the new parameters if they are in the
               ///< file; or d2h: state and new parameters, stream buffer -> host memory
  StateD2H,    ///< d2h: a shard's parameters and state on the device -> its copy in host memory
  Loss,        ///< collective: every rank's micro-batch losses, for the metrics
  Dispatch,    ///< collective: rows, or gradients of rows, to the ranks of their experts
  Combine,     ///< collective: what those ranks made of them, back
  PeerCopy,    ///< collective: a shard's version of the state -> its copy in the memory of the
               ///< rank's peer, or its receive buffer, while the copy of the rank's ward comes in
  PeerStore,   ///< d2h: a shard's version of the ward's state, receive buffer -> its copy
  PeerMark,    ///< collective: this rank notes that the copy of its ward's version is whole
  ActivationGather,  ///< collective: every rank's rows, or gradients of its rows, to all ranks
  ActivationReduce,  ///< collective: the sum over ranks of what they made of a rank's rows, to it
};
[[nodiscard]] const char* op_kind_name(OpKind kind) noexcept;  ///< "fetch", "gather", ..

/// Memory that operations allocate and free.
struct Buffer {
  std::string name;
  Tier tier = Tier::Gpu;
  Bytes bytes = 0;
};

/// Size of a device allocation in whole blocks of 512 bytes, as LibTorch's caching allocator
/// counts them.
[[nodiscard]] constexpr Bytes device_blocks(Bytes bytes) noexcept {
  constexpr Bytes kBlock = 512;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

/// Size of a shard's optimizer state in its file, and of its reads and writes. These go past the
/// page cache, which needs whole blocks.
inline constexpr Bytes kFileBlock = 4096;
[[nodiscard]] constexpr Bytes file_blocks(Bytes bytes) noexcept {
  return (bytes + kFileBlock - 1) / kFileBlock * kFileBlock;
}

/// One operation. Indices point into Program::operations; -1 = does not apply.
struct Operation {
  OpKind kind = OpKind::Forward;
  Lane lane = Lane::Compute;
  bool keep = false;         ///< Forward: save for backward
  bool accumulate = false;   ///< GradD2H, Reduce, GradAdd: add to the sum instead of writing it
  bool all_reduce = false;   ///< Reduce of a replicated unit
  bool speculative = false;  ///< Adam: before the norm is known
  bool beside = false;       ///< Adam: keeps the old state, beside which it writes the new
  bool own = false;       ///< Reduce: of a shard that belongs to this rank alone, so that nothing
                          ///< is summed over ranks and the gradient is stored or added alone
  bool backward = false;  ///< exchanges: of gradients
  bool of_start = false;  ///< Mark: of the version from which the step starts, not of the one that
                          ///< it makes
  std::int32_t unit = -1;
  std::int32_t chunk = -1;
  std::int32_t micro_batch = -1;
  std::int32_t stage = 0, stages = 1;  ///< phases: which of how many, with exchanges in between
  std::int32_t member = -1;  ///< position of the micro-batch in its group (phases, output copies)
  std::int32_t slot = -1;    ///< slot of the unit's class pool (Fetch, Gather into the cache)
  std::int32_t gradient_buffer = -1;  ///< buffer of the unit's class pool (Backward, Reduce,
                                      ///< GradAdd, GradD2H; SquareSum before that)
  std::int32_t accumulator = -1;   ///< index in the unit's class pool (GradAdd, GradH2D, GradD2H)
  std::int32_t state_buffer = -1;  ///< StateRead, Adam, StateWrite: the state buffer of a shard in
                                   ///< a file, or the stream buffer of a shard that streams
  std::int32_t staging_buffer = -1;  ///< pinned buffer of a shard in a file, for its parameters
                                     ///< (ParamRead, Fetch) or its gradient (GradD2H, then
                                     ///< GradWrite or Adam), or of a gradient ring (GradD2H, Adam)
  Bytes receive_offset = -1;  ///< PeerCopy, PeerStore: place of the ward's shard in the receive
                              ///< buffer; -1: it comes into its copy's place
  Bytes bytes = 0;            ///< size of the transfer: a shard or an output for copies, the whole
                              ///< chunk for collectives
  std::int64_t elements = 0;  ///< Adam, AdamRollback, SquareSum, GradAdd: elements of the shard
  std::int64_t stored = 0;    ///< Reduce: elements of the shard if its gradient stays on the device
  Seconds compute_seconds = 0;      ///< phases: sustained device time from the profile
  Seconds issue_seconds = 0;        ///< phases: host time to launch it
  Seconds unthrottled_seconds = 0;  ///< phases: device time without a power limit; 0: not measured
  double watts = 0;                 ///< phases: mean power of the device in that time
  Bytes peak_bytes = 0;  ///< device memory above the level at the start, `allocates` included
  std::vector<std::int32_t> waits;             ///< operations of the same step, lower indices
  std::vector<std::int32_t> previous_waits;    ///< operations of the step before
  std::vector<std::int32_t> allocates, frees;  ///< indices into Program::buffers
};

/// Whether `op` is a phase of a unit, whose costs a profile has.
[[nodiscard]] constexpr bool is_unit_phase(const Operation& op) noexcept {
  return op.kind == OpKind::Forward || op.kind == OpKind::Recompute || op.kind == OpKind::Backward;
}

/// Whether `op` is the last or the only operation of its phase.
[[nodiscard]] constexpr bool ends_phase(const Operation& op) noexcept {
  return op.stage + 1 == op.stages;
}

/// Whether `op` is a collective between two stages of a phase.
[[nodiscard]] constexpr bool is_exchange(const Operation& op) noexcept {
  return op.kind == OpKind::Dispatch || op.kind == OpKind::Combine ||
         op.kind == OpKind::ActivationGather || op.kind == OpKind::ActivationReduce;
}

/// A pool of equal device buffers that the units of one class share.
struct UnitPool {
  std::string unit_class;
  std::int64_t elements = 0;  ///< elements of one buffer
  int slots = 0;              ///< cache slots; 0 when no unit of the class is Sharded
  int gradient_buffers = 0;
  int accumulators = 0;  ///< fp32 sums of gradients of a group on their way to the host
  std::int64_t accumulator_elements = 0;  ///< elements of one
};

/// Whether an operation of the kind is part of copying a version of the state, or says that it is
/// whole.
[[nodiscard]] constexpr bool makes_snapshot(OpKind kind) noexcept {
  return kind == OpKind::StateD2H || kind == OpKind::Mark || kind == OpKind::PeerCopy ||
         kind == OpKind::PeerStore || kind == OpKind::PeerMark;
}

/// Operations of one step. They are in a topological order, and each lane executes its own in this
/// order.
struct Program {
  int world_size = 1;
  DataType dtype = DataType::Float32;
  DataType gradient_dtype = DataType::Float32;  ///< type of gradient shards; fp32 when accumulating
  AdamState adam_state = AdamState::Float32;    ///< type of Adam's moments
  bool deterministic = true;                    ///< kernels of backward; see Plan
  int cpu_adam_threads = 1;
  int snapshot_every = 1;        ///< Plan::snapshot_every
  double clipped_share = 0;      ///< share of its time that an AdamRollback takes on average
  int state_buffers = 0;         ///< buffers for optimizer state between file and CPU
  Bytes state_buffer_bytes = 0;  ///< size of each
  int parameter_buffers = 0;     ///< pinned buffers for parameters between file and GPU
  Bytes parameter_buffer_bytes = 0;
  int staged_gradients = 0;  ///< pinned buffers for gradients between GPU and file or CPU, in turn
  Bytes staged_gradient_bytes = 0;
  int stream_buffers = 0;  ///< device buffers for state between host memory and GPU
  Bytes stream_buffer_bytes = 0;
  int receive_buffers = 0;  ///< device buffers for versions between peer and host memory, in turn
  Bytes receive_buffer_bytes = 0;      ///< size of each; of SnapshotSend::Naive's only the largest
  Bytes receive_bytes = 0;             ///< size of all
  Bytes workspace_bytes = 0;           ///< device memory of libraries; not among the buffers below
  Bytes graph_bytes = 0;               ///< device memory that the driver takes for CUDA graphs
  Seconds launch_seconds = 0;          ///< Profile::launch_seconds
  double matmul_flops_per_second = 0;  ///< Profile::matmul_flops_per_second
  std::vector<std::string> unit_names;
  std::vector<UnitLayout> layouts;    ///< per unit
  std::vector<UnitPool> pools;        ///< per unit class
  std::vector<std::int32_t> pool_of;  ///< per unit
  std::vector<Operation> operations;
  std::vector<Buffer> buffers;         ///< allocated and freed within a step
  std::vector<Buffer> static_buffers;  ///< allocated once, before the first step

  /// Steps of which one alone runs operations of the kind: the first of so many. In the others they
  /// keep their place in the order, and do nothing.
  [[nodiscard]] int steps_for_each(OpKind kind) const noexcept {
    return makes_snapshot(kind) ? snapshot_every : 1;
  }
  /// Name of an operation, stable and unique within the step: "gather block.3 chunk 1 micro-batch 0
  /// #17".
  [[nodiscard]] std::string name(std::int32_t operation) const;
};

/// The output of a unit for one micro-batch of a group.
struct UnitOutput {
  std::int32_t unit = -1, member = -1;
  auto operator<=>(const UnitOutput&) const = default;
};

/// Output that each of Program::buffers holds, if its unit recomputes; unit -1 for all others.
[[nodiscard]] std::vector<UnitOutput> output_owners(const Program& program);

}  // namespace athanor
