// SPDX-License-Identifier: Apache-2.0
// Plan: every choice about how one training step is run. A plan changes speed and memory, never the
// loss.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// How a unit's parameters and optimizer state lie over the ranks.
enum class Sharding {
  Replicated,        ///< whole on every rank; gradients are all-reduced (DDP)
  OptimizerSharded,  ///< parameters whole on every rank, gradients and optimizer state sharded
                     ///< (ZeRO-1/2)
  Sharded,           ///< everything sharded; gathered into a cache slot for use (ZeRO-3)
};

enum class Home {
  Gpu,
  Host,
  Nvme,  ///< in a file, from which it passes through host memory; of parameters only where their
         ///< optimizer state is in it too
};

/// Whether optimizer state is kept off the GPU, with gradients and new parameters beside it in
/// pinned host memory.
[[nodiscard]] constexpr bool off_gpu(Home optimizer) noexcept { return optimizer != Home::Gpu; }

/// What a unit leaves behind between forward and backward.
enum class Activation {
  Keep,       ///< all that its backward needs
  Recompute,  ///< its output; the rest is computed again
  Offload,    ///< the same, and its output waits in pinned host memory. Where that would come back
              ///< at once, or the next unit keeps it on the device anyhow, as Recompute
};

enum class Clipping {
  None,
  Wait,       ///< the global L2 norm first, then every update (exact)
  Speculate,  ///< updates by the CPU do not wait for the norm: they write new state beside the
              ///< old, and are done again from the old where the norm turns out to be too large
              ///< (exact; SuperOffload, ASPLOS 2026). In bf16 alone: fp32 parameters are
              ///< themselves part of the state. Late updates, what Adam takes from files or on the
              ///< GPU, and all where updates start after backward, wait
};

/// Copies between host and device.
enum class Copies {
  Overlapped,  ///< on their own lanes; only those wait that need what is copied
  Blocking,    ///< each waits for the computation issued before it, and the next waits for the copy
};

/// When Adam may start.
enum class OptimizerStart {
  Overlapped,     ///< a chunk's update waits for its own gradient, the next step for its own chunks
  AfterBackward,  ///< every update waits for the last gradient, the next step for the last update
};

/// Adam on the CPU and on the GPU.
enum class OptimizerLanes {
  Concurrent,
  Serial,  ///< the GPU's first update waits for the CPU's last
};

/// Which unit gives its cache slot to the next.
enum class Eviction {
  Belady,  ///< the one that is used again last
  Fifo,    ///< the one that was fetched first
};

/// What may run beside what. athanor overlaps all that it can; the other values are what other
/// systems do, lowered as further waits (see sim/tune/policies.hpp).
struct Schedule {
  Copies copies = Copies::Overlapped;
  OptimizerStart optimizer = OptimizerStart::Overlapped;
  OptimizerLanes optimizer_lanes = OptimizerLanes::Concurrent;
  Eviction eviction = Eviction::Belady;
  bool operator==(const Schedule&) const = default;
};

/// Placement of `count` consecutive chunks of a unit.
struct ChunkRun {
  std::int64_t count = 0;
  Home parameters = Home::Gpu;  ///< Host only where the unit is Sharded and off_gpu, Nvme only
                                ///< where the optimizer is, too
  Home optimizer = Home::Gpu;   ///< where fp32 state lives; Adam runs on the processor beside it
  bool gpu_adam = false;        ///< or, from Host, on the GPU: the state streams through it
};

struct UnitPlan {
  Sharding sharding = Sharding::Sharded;
  Activation activation =
      Activation::Keep;          ///< the last unit always keeps: its backward follows at once
  std::vector<ChunkRun> chunks;  ///< counts add up to the unit's number of chunks
};

/// Peak bytes in each memory tier of one rank.
struct TierBytes {
  Bytes gpu = 0;     ///< device arena
  Bytes pinned = 0;  ///< page-locked host memory that copies read and write
  Bytes host = 0;    ///< pageable host memory: optimizer state
  Bytes nvme = 0;
};

/// Of gradient shards: what is added over micro-batches is added in fp32.
[[nodiscard]] constexpr DataType gradient_dtype(DataType dtype,
                                                std::int64_t accumulation) noexcept {
  return accumulation > 1 ? DataType::Float32 : dtype;
}

/// What the simulator said when the plan was made.
struct Prediction {
  Seconds step_seconds = 0;
  TierBytes peak_bytes;
};

struct Plan {
  std::string name;  ///< the policy that made it
  int world_size = 1;
  std::int64_t micro_batch = 1;   ///< sequences per rank and micro-batch
  std::int64_t accumulation = 1;  ///< micro-batches per rank and step
  DataType dtype = DataType::Float32;
  std::int64_t sequence_length = 0;
  std::int64_t chunk_elements = 0;  ///< before rounding to whole shards (see chunk_layout.hpp)
  int cache_slots = 2;              ///< gathered units of one class that the cache holds
  int gradient_buffers = 2;         ///< full gradients of one class that may be in flight
  int prefetch_depth = 1;           ///< units fetched ahead of the one that computes; < cache_slots
  Clipping clipping = Clipping::None;
  double max_gradient_norm = 1.0;  ///< used with clipping
  double clipped_share = 0;  ///< of steps, that clipping is expected to change: the part of its
                             ///< time that an update done again takes in predictions
  int cpu_adam_threads = 1;
  int late_updates = 0;  ///< leading units that the CPU updates after backward, in the order in
                         ///< which the next forward needs them, not as gradients arrive
  int nvme_buffers = 3;  ///< chunks' state between file and CPU at once: read, updated, written
  int parameter_buffers = 2;  ///< chunks' parameters between file and GPU at once: read, copied;
                              ///< and as many of their gradients, the other way
  int stream_buffers = 2;     ///< chunks' state between host memory and GPU at once
  int compute_threads = 1;    ///< CPU backend: threads of the compute lane
  Schedule schedule;
  std::vector<UnitPlan> units;  ///< one per Architecture::units entry

  std::string profile_path, platform_path;  ///< what the plan was made from; may be empty
  std::optional<Prediction> prediction;

  [[nodiscard]] std::int64_t global_batch() const noexcept {
    return micro_batch * accumulation * world_size;
  }
  /// Throws InputError where a value is out of range or the plan does not fit `architecture`.
  void validate(const Architecture& architecture, const std::string& where) const;
};

/// Whether the gradient of a chunk (ChunkRun or Chunk) has no place of its own in host memory: it
/// passes through a buffer, from which the CPU takes it as it arrives.
template <typename PlacedChunk>
[[nodiscard]] constexpr bool stages_gradient(const Plan& plan, const PlacedChunk& chunk) noexcept {
  return chunk.parameters == Home::Nvme && plan.accumulation == 1;
}

/// Whether some chunk's optimizer state is in a file.
[[nodiscard]] bool uses_nvme(const Plan& plan) noexcept;

/// Whether some chunk's parameters are in a file.
[[nodiscard]] bool reads_parameters(const Plan& plan) noexcept;

/// Whether some chunk's optimizer state streams through the GPU.
[[nodiscard]] bool streams_state(const Plan& plan) noexcept;

}  // namespace athanor
