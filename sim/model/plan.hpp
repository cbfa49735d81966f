// SPDX-License-Identifier: Apache-2.0
// Plan: every choice about how one training step is run. A plan changes speed and memory, never the
// loss.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/tier.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Distribution of a unit's parameters and optimizer state over the ranks.
enum class Sharding {
  Replicated,        ///< whole on every rank; gradients are all-reduced (DDP)
  OptimizerSharded,  ///< parameters whole on every rank, gradients and optimizer state sharded
                     ///< (ZeRO-1/2)
  Sharded,           ///< everything sharded; gathered into a cache slot for use (ZeRO-3)
};

/// Tier in which parameters or optimizer state live.
enum class Home {
  Gpu,
  Host,
  Nvme,  ///< a file; data pass through host memory. Parameters only if their optimizer state is
         ///< in a file too
};

/// Whether optimizer state is kept off the GPU. Its gradients and new parameters are then in pinned
/// host memory.
[[nodiscard]] constexpr bool off_gpu(Home optimizer) noexcept { return optimizer != Home::Gpu; }

/// Activation policy: the tensors that a unit keeps between forward and backward.
enum class Activation {
  Keep,       ///< everything that its backward needs
  Recompute,  ///< its output; the rest is computed again
  Offload,    ///< its output, in pinned host memory. Equals Recompute where the output would come
              ///< back at once, or where the next unit keeps it on the device anyway
};

/// Clipping of gradients by their global L2 norm.
enum class Clipping {
  None,
  Wait,       ///< every update waits for the norm (exact)
  Speculate,  ///< updates by the CPU do not wait for the norm. They keep the old state and are
              ///< rolled back where the norm is too large (exact; SuperOffload, ASPLOS 2026). Only
              ///< in bf16, because fp32 parameters are part of the state. These updates wait: late
              ///< ones, those of state in files, those on the GPU, and all of
              ///< OptimizerStart::AfterBackward
};

/// Snapshots: how training goes on after its processes were killed, without a checkpoint on disk.
/// State in host memory is updated by the CPU in all of them, and none goes with state in files.
enum class Snapshot {
  None,
  Redo,  ///< state and gradients are in host memory that outlives the processes. All updates wait
         ///< until every rank has all gradients of the step, so that a killed step can be finished
         ///< from them. Needs all state on the host
  Versions,  ///< two versions of the state are in host memory that outlives the processes. An
             ///< update reads one and writes the other, as soon as it has its gradient; a killed
             ///< step is done again from the version that it has left whole. Needs all state on the
             ///< host
  Copy,      ///< state on the host has versions. State on the GPU is copied to host memory that
             ///< outlives the processes, to one of two places in turn, while the next step does not
             ///< change it yet: before its updates
};

/// Most copies of a snapshot: a rank's own, and its peer's.
inline constexpr int kMostSnapshotCopies = 2;

/// Most steps for each snapshot. A prediction simulates more than two such cycles.
inline constexpr int kMostSnapshotEvery = 100;

/// How a version is sent to the peer. All but Direct receive it in a buffer on the device, from
/// which it is copied to its place in host memory; they are the four schemes of GEMINI (SOSP 2023).
/// Direct needs neither buffer nor copy. It is for ranks that can receive into host memory, as
/// those of the CPU backend can.
enum class SnapshotSend {
  Direct,    ///< chunk by chunk between the gathers of the first forward, each into its place
  Blocking,  ///< chunk by chunk after the step's updates; training goes on when all have come
  Naive,     ///< all chunks in a row after the first forward, into a buffer as large as all of them
  Chunked,   ///< chunk by chunk as Direct, into a buffer of one chunk: the next is sent when that
             ///< has been copied out
  Pipelined,  ///< likewise, into two buffers in turn: a chunk comes while another is copied out
};

/// Copies between host and device.
enum class Copies {
  Overlapped,  ///< on their own lanes; only those wait that need what is copied
  Blocking,    ///< each waits for the computation issued before it, and the next waits for the copy
};

/// Earliest start of Adam.
enum class OptimizerStart {
  Overlapped,     ///< a chunk's update waits for its own gradient, the next step for its own chunks
  AfterBackward,  ///< every update waits for the last gradient, the next step for the last update
};

/// Overlap of Adam on the CPU with Adam on the GPU.
enum class OptimizerLanes {
  Concurrent,
  Serial,  ///< the GPU's first update waits for the CPU's last
};

/// Choice of the unit that gives up its cache slot.
enum class Eviction {
  Belady,  ///< the one that is used again last
  Fifo,    ///< the one that was fetched first
};

/// Overlap between lanes. athanor overlaps all that it can. The other values are what other systems
/// do; they are lowered as further waits (see sim/policy/policies.hpp).
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
  Home parameters = Home::Gpu;  ///< Host only if the unit is Sharded and its state is off the GPU;
                                ///< Nvme only if its state is there too
  Home optimizer = Home::Gpu;   ///< home of the fp32 state; the processor there runs Adam
  bool gpu_adam = false;        ///< the GPU runs Adam although the state is on the host: it streams
                                ///< through the GPU
};

/// How what ranks own is cut.
enum class Cut {
  BetweenParameters,  ///< a rank has some parameters, whole
  Rows,               ///< a rank has equal parts of one parameter's first dimension
  Columns,            ///< or of its last
};

/// Consecutive parameters of a unit that are divided among the ranks: rank r owns the r-th of equal
/// parts, and no other rank has it. A range that is cut in rows or columns has one parameter.
struct OwnedRange {
  std::size_t first = 0, count = 0;
  Cut cut = Cut::BetweenParameters;
};

/// Collective between two stages of a unit's phase.
enum class Exchange {
  Dispatch,  ///< every rank sends each other rank what that one works on
  Combine,   ///< and gets it back. The gradient of either is the other
  Gather,    ///< every rank gets the rows of all: an all-gather
  Reduce,    ///< and the sum of what all made of its rows: a reduce-scatter. The gradient of either
             ///< is the other
};

struct Plan;
struct UnitPlan;

/// Pattern of a unit: what travels between ranks so that it can compute. This one is *weights
/// travel*: parameters are the same on every rank, gathered where they are sharded, and a phase is
/// one operation. Others derive from it (sim/patterns).
class UnitPattern {
 public:
  UnitPattern() = default;
  virtual ~UnitPattern() = default;
  UnitPattern(const UnitPattern&) = delete;
  UnitPattern& operator=(const UnitPattern&) = delete;

  [[nodiscard]] virtual std::string_view name() const noexcept { return "weights"; }
  /// Says what happens under it, as texts for users do: "N plans whose weights travel".
  [[nodiscard]] virtual std::string_view phrase() const noexcept { return "weights travel"; }
  /// Key of results about it in JSON.
  [[nodiscard]] virtual std::string_view key() const noexcept { return "weights_travel"; }
  /// Says how a user gets costs of it into a profile.
  [[nodiscard]] virtual std::string_view how_to_profile() const noexcept { return ""; }
  /// Whether `unit` of `architecture` can have it on some number of ranks.
  [[nodiscard]] virtual bool suits(const Architecture& /*architecture*/,
                                   const Unit& /*unit*/) const {
    return true;
  }
  /// Whether what ranks own of `unit`, which it suits, divides among so many.
  [[nodiscard]] virtual bool divides(const Architecture& /*architecture*/, const Unit& /*unit*/,
                                     int /*ranks*/) const {
    return true;
  }
  /// Throws InputError where `unit` of `architecture` cannot have this pattern under `plan`.
  /// `where` is the unit's.
  virtual void validate(const Plan& /*plan*/, const Architecture& /*architecture*/,
                        const Unit& /*unit*/, const UnitPlan& /*unit_plan*/,
                        const std::string& /*where*/) const {}
  /// Returns the parameters that belong to ranks, ascending. `unit` may be any.
  [[nodiscard]] virtual std::vector<OwnedRange> owned(const Unit& /*unit*/) const { return {}; }
  /// Returns the collectives that divide forward into stages. Backward has them in reverse, each
  /// replaced by its gradient.
  [[nodiscard]] virtual std::vector<Exchange> exchanges() const { return {}; }
  /// Returns the bytes of one rank's buffer in an exchange of forward, or of backward.
  [[nodiscard]] virtual Bytes exchange_bytes(const Plan& /*plan*/, const Unit& /*unit*/,
                                             const UnitPlan& /*unit_plan*/, Exchange /*exchange*/,
                                             bool /*backward*/) const {
    return 0;
  }
};
[[nodiscard]] const UnitPattern& weights_travel() noexcept;

/// Choices about one unit.
struct UnitPlan {
  Sharding sharding = Sharding::Sharded;
  Activation activation =
      Activation::Keep;          ///< the last unit always keeps: its backward follows at once
  std::vector<ChunkRun> chunks;  ///< counts add up to the unit's number of chunks
  const UnitPattern* pattern = &weights_travel();  ///< never null, and lives for ever
  std::int64_t capacity = 0;  ///< tokens travel: rows that one rank can send another in an
                              ///< exchange; a step that has more ends with an error
};

/// Element type of gradient shards: sums over micro-batches are fp32.
[[nodiscard]] constexpr DataType gradient_dtype(DataType dtype,
                                                std::int64_t accumulation) noexcept {
  return accumulation > 1 ? DataType::Float32 : dtype;
}

/// Prediction of the simulator when the plan was made.
struct Prediction {
  Seconds step_seconds = 0;
  TierBytes peak_bytes;
};

/// The request of the search that made a plan, besides what the plan itself says. A run that
/// tunes again asks for the same.
struct PlanSearch {
  /// Limits of one GPU, of a node's host memory and of its NVMe; 0: the platform's, and no NVMe.
  Bytes gpu = 0, host = 0, nvme = 0;
  int adam_threads = 0;      ///< per rank; 0: chosen
  double host_slowdown = 0;  ///< share that updates on the host may take longer
  double energy_within = 0;  ///< times as slow as the fastest for the least energy; 0: not asked
  bool operator==(const PlanSearch&) const = default;
};

/// Every choice about one training step.
struct Plan {
  std::string name;  ///< the policy that made it
  int world_size = 1;
  std::int64_t micro_batch = 1;        ///< sequences per rank and micro-batch
  std::int64_t accumulation = 1;       ///< micro-batches per rank and step
  std::int64_t micro_batch_group = 1;  ///< micro-batches that a unit computes in turn before the
                                       ///< next unit does; divides the accumulation
  DataType dtype = DataType::Float32;
  AdamState adam_state = AdamState::Float32;  ///< type of Adam's two moments. bf16 and int8 round
                                              ///< them, which changes what is learnt
  std::int64_t sequence_length = 0;
  std::int64_t chunk_elements = 0;  ///< before rounding to whole shards (see chunk_layout.hpp)
  int cache_slots = 2;              ///< gathered units of one class that the cache holds
  int gradient_buffers = 2;         ///< full gradients of one class that may be in flight
  int prefetch_depth = 1;           ///< units fetched ahead of the one that computes; needs
                                    ///< least_cache_slots() (cache_slots.hpp)
  Clipping clipping = Clipping::None;
  double max_gradient_norm = 1.0;  ///< used with clipping
  double clipped_share = 0;  ///< expected share of steps that clipping changes; a rollback takes
                             ///< this share of its time in predictions
  int cpu_adam_threads = 1;
  int late_updates = 0;  ///< number of leading units that the CPU updates after backward, in the
                         ///< order in which the next forward needs them
  int nvme_buffers = 3;  ///< chunks whose state is in host memory at once: read, updated, written
  int parameter_buffers = 2;  ///< chunks whose parameters are between file and GPU at once; also
                              ///< the number of their gradients on the way back, unless there is a
                              ///< gradient ring
  int stream_buffers = 2;     ///< chunks whose state streams through the GPU at once
  int gradient_ring = 0;    ///< pinned buffers for gradients of chunks that the CPU updates as they
                            ///< arrive; 0: every chunk has one of its own. No effect with
                            ///< accumulation, clipping or Snapshot::Redo, which need
                            ///< gradients longer
  int compute_threads = 1;  ///< CPU backend: threads of the compute lane
  bool deterministic = true;  ///< off: backward takes the fastest kernels, which add in the order
                              ///< in which threads happen to run, so that gradients differ in the
                              ///< last bits from run to run
  bool cuda_graphs = false;   ///< units' phases are recorded in the second step and issued as one
                              ///< CUDA graph each from then on
  Snapshot snapshot = Snapshot::None;
  int snapshot_every = 1;   ///< steps for each version that is copied: only the first of so many
                            ///< copies, and a kill loses as many. More than 1 needs Snapshot::Copy
                            ///< with all state on the GPU: updates on the host would write over
                            ///< their part of the version meanwhile
  int snapshot_copies = 1;  ///< copies of each version: the rank's own and, with 2, one in the
                            ///< memory of a rank of another node, its peer
  SnapshotSend snapshot_send = SnapshotSend::Direct;  ///< used with 2 copies
  Schedule schedule;
  std::vector<UnitPlan> units;  ///< one per Architecture::units entry

  std::string profile_path, platform_path;  ///< inputs from which the plan was made; may be empty
  std::optional<PlanSearch> search;         ///< absent: no search made it, or it is an older plan
  std::optional<Prediction> prediction;

  [[nodiscard]] std::int64_t global_batch() const noexcept {
    return micro_batch * accumulation * world_size;
  }
  /// Throws InputError where a value is out of range or the plan does not fit `architecture`.
  void validate(const Architecture& architecture, const std::string& where) const;
};

/// Returns the number of units with another pattern than weights travel.
[[nodiscard]] std::int64_t num_travelling_units(const Plan& plan);

/// Lists the patterns of a plan's units, each once, in the order of the units; weights travel is
/// none of them.
[[nodiscard]] std::vector<const UnitPattern*> travelling_patterns(const Plan& plan);

/// Whether some chunk's optimizer state is in a file.
[[nodiscard]] bool uses_nvme(const Plan& plan) noexcept;

/// Whether some chunk's parameters are in a file.
[[nodiscard]] bool reads_parameters(const Plan& plan) noexcept;

/// Whether some chunk's optimizer state streams through the GPU.
[[nodiscard]] bool streams_state(const Plan& plan) noexcept;

}  // namespace athanor
