// SPDX-License-Identifier: Apache-2.0
// The objects that every operation of one rank works on.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/backend/device.hpp"
#include "executor/memory/memory_pools.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <cstddef>

namespace athanor {

class JobWatch;
class PeerCopies;
class RedoLog;
class SnapshotLog;

/// References to objects that outlive the run.
struct RankContext {
  const Program& program;
  const Plan& plan;
  MemoryPools& memory;
  Device& device;
  Collectives& collectives;         ///< on device memory: the collective lane's
  Collectives& host_collectives;    ///< on host memory, outside steps
  JobWatch* watch = nullptr;        ///< null: none
  SnapshotLog* snapshot = nullptr;  ///< null: the plan takes no snapshots
  PeerCopies* peers = nullptr;      ///< null: no rank keeps copies of another's state
  RedoLog* redo = nullptr;          ///< null: they are none of Snapshot::Redo

  [[nodiscard]] const Chunk& chunk(const Operation& op) const {
    return program.layouts.at(op.unit).chunks.at(op.chunk);
  }
  [[nodiscard]] const ChunkMemory& chunk_memory(const Operation& op) const {
    return memory.chunk(op.unit, op.chunk);
  }
  [[nodiscard]] Sharding sharding(const Operation& op) const {
    return plan.units.at(op.unit).sharding;
  }
  /// Bytes of `elements` in the compute dtype.
  [[nodiscard]] Bytes bytes_of(std::int64_t elements) const {
    return elements * size_of(program.dtype);
  }
};

}  // namespace athanor
