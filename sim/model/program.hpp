// SPDX-License-Identifier: Apache-2.0
// Program: one training step of one rank as operations on lanes. Every rank runs the same program.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

/// The closed set of operations.
enum class OpKind {
  ParamRead,  ///< nvme-read: a shard's parameters, file -> parameter buffer
  Fetch,      ///< h2d: this rank's shard of a chunk, host memory or parameter buffer -> its place
              ///< in the slot
  Gather,     ///< collective: shards -> the whole chunk, in the slot or in the replicated storage
  Forward,    ///< compute: one unit, one micro-batch
  Recompute,  ///< compute: forward again, from the saved input
  Backward,   ///< compute: adds parameter gradients into the unit's gradient buffer
  OutputD2H,  ///< d2h: a unit's output -> its place in pinned memory
  OutputH2D,  ///< h2d: back, into the next unit's input
  Reduce,     ///< collective: gradients of a chunk, reduce-scatter or all-reduce (sum), in place
  GradD2H,    ///< d2h: the reduced shard -> host gradient (written or added), or gradient buffer
  GradWrite,  ///< nvme-write: gradient buffer -> file
  SquareSum,  ///< compute, cpu-adam or collective: sum of squares of a shard's gradient
  Norm,       ///< collective: the global norm from all square sums
  Adam,       ///< compute or cpu-adam: AdamW on a shard; writes the shard's parameters
  AdamRollback,  ///< cpu-adam: Adam again, from the old state, where the norm says to clip
  ParamH2D,      ///< h2d: updated shard -> its home on the device
  StateRead,   ///< nvme-read: a shard's optimizer state, and its gradient where that is there, file
               ///< -> state buffer; or h2d: state and gradient, host memory -> stream buffer
  StateWrite,  ///< nvme-write: back, after Adam, with the new parameters where they are in the
               ///< file; or d2h: the same, with the new parameters
  Loss,        ///< collective: every rank's micro-batch losses, for the metrics
};
[[nodiscard]] const char* op_kind_name(OpKind kind) noexcept;  ///< "fetch", "gather", ..

enum class Tier { Gpu, Pinned, Host, Nvme };

/// Memory that operations take and give back.
struct Buffer {
  std::string name;
  Tier tier = Tier::Gpu;
  Bytes bytes = 0;
};

/// What device memory of that size takes: whole blocks of 512 bytes, as LibTorch's caching
/// allocator counts it.
[[nodiscard]] constexpr Bytes device_blocks(Bytes bytes) noexcept {
  constexpr Bytes kBlock = 512;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

/// What a shard's optimizer state takes in its file and moves between file and memory: whole
/// blocks, as reads and writes past the page cache need it.
inline constexpr Bytes kFileBlock = 4096;
[[nodiscard]] constexpr Bytes file_blocks(Bytes bytes) noexcept {
  return (bytes + kFileBlock - 1) / kFileBlock * kFileBlock;
}

/// One operation. Indices point into Program::operations; -1 = does not apply.
struct Operation {
  OpKind kind = OpKind::Forward;
  Lane lane = Lane::Compute;
  bool keep = false;         ///< Forward: save for backward
  bool accumulate = false;   ///< GradD2H, Reduce: add to the gradient shard instead of writing it
  bool all_reduce = false;   ///< Reduce of a replicated unit
  bool speculative = false;  ///< Adam: before the norm is known; beside the old state
  std::int32_t unit = -1;
  std::int32_t chunk = -1;
  std::int32_t micro_batch = -1;
  std::int32_t slot = -1;  ///< slot of the unit's class pool (Fetch, Gather into the cache)
  std::int32_t gradient_buffer =
      -1;  ///< buffer of the unit's class pool (Backward, Reduce, GradD2H; SquareSum before that)
  std::int32_t state_buffer = -1;    ///< StateRead, Adam, StateWrite of a shard whose state is in a
                                     ///< file: state buffer; or streams: stream buffer
  std::int32_t staging_buffer = -1;  ///< of a shard in a file: in pinned memory, of parameters
                                     ///< (ParamRead, Fetch) or gradients (GradD2H, then GradWrite
                                     ///< or Adam)
  Bytes bytes = 0;            ///< what moves: a shard or an output for copies, the whole chunk for
                              ///< collectives
  std::int64_t elements = 0;  ///< Adam, Redo, SquareSum: elements of the shard
  Seconds compute_seconds = 0;      ///< Forward, Recompute, Backward: from the profile, on its GPU
  Seconds issue_seconds = 0;        ///< the same: host time to launch it
  Seconds unthrottled_seconds = 0;  ///< the same, when no power limit acts; 0: not measured
  double watts = 0;                 ///< the same: the device's meanwhile
  Bytes peak_bytes = 0;  ///< device memory above the level at the start, `allocates` included
  std::vector<std::int32_t> waits;             ///< operations of the same step, lower indices
  std::vector<std::int32_t> previous_waits;    ///< operations of the step before
  std::vector<std::int32_t> allocates, frees;  ///< indices into Program::buffers
};

/// One of the operations that a profile has costs of.
[[nodiscard]] constexpr bool is_unit_phase(const Operation& op) noexcept {
  return op.kind == OpKind::Forward || op.kind == OpKind::Recompute || op.kind == OpKind::Backward;
}

/// A pool of equal device buffers that the units of one class share.
struct UnitPool {
  std::string unit_class;
  std::int64_t elements = 0;  ///< of one buffer
  int slots = 0;              ///< cache slots; 0 when no unit of the class is Sharded
  int gradient_buffers = 0;
};

/// Operations are in a topological order; the order within a lane is the order of execution.
struct Program {
  int world_size = 1;
  DataType dtype = DataType::Float32;
  DataType gradient_dtype = DataType::Float32;  ///< of gradient shards; fp32 when accumulating
  int cpu_adam_threads = 1;
  double clipped_share = 0;      ///< of its time that an AdamRollback takes, on average
  int state_buffers = 0;         ///< through which optimizer state passes between file and CPU
  Bytes state_buffer_bytes = 0;  ///< of each
  int parameter_buffers = 0;     ///< the same of parameters, between file and GPU; pinned
  Bytes parameter_buffer_bytes = 0;
  int staged_gradients = 0;  ///< buffers of gradients, between GPU and file or CPU; pinned
  Bytes staged_gradient_bytes = 0;
  int stream_buffers = 0;  ///< the same between host memory and GPU, on the device
  Bytes stream_buffer_bytes = 0;
  Bytes workspace_bytes = 0;           ///< device memory of libraries, beside the buffers below
  Seconds launch_seconds = 0;          ///< Profile::launch_seconds
  double matmul_flops_per_second = 0;  ///< Profile::matmul_flops_per_second
  std::vector<std::string> unit_names;
  std::vector<UnitLayout> layouts;    ///< per unit
  std::vector<UnitPool> pools;        ///< per unit class
  std::vector<std::int32_t> pool_of;  ///< per unit
  std::vector<Operation> operations;
  std::vector<Buffer> buffers;         ///< taken and given back within a step
  std::vector<Buffer> static_buffers;  ///< taken once, before the first step

  /// Stable and unique within the step: "gather block.3 chunk 1 micro-batch 0 #17".
  [[nodiscard]] std::string name(std::int32_t operation) const;
};

/// By index into Program::buffers: the unit whose output the buffer holds, where that unit
/// recomputes; -1 for all others.
[[nodiscard]] std::vector<std::int32_t> output_owners(const Program& program);

}  // namespace athanor
