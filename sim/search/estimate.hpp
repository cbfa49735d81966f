// SPDX-License-Identifier: Apache-2.0
// Memory and a lower bound of a candidate in closed form. A search of hundreds of thousands of
// candidates cannot lower each of them.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/search/space/candidate_groups.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor {

/// One kind of operation on a chunk.
struct ChunkWork {
  OpKind kind;
  Lane lane;
  bool accumulate = false;
  bool beside = false;
  InFile in_file = {};
  bool operator==(const ChunkWork&) const = default;
};

/// Memory and a lower bound of any candidate for one problem. Units of one class are alike, so a
/// candidate is a handful of counts per class. Tables fill as candidates ask for them.
class Estimator {
 public:
  static constexpr Seconds kNever = std::numeric_limits<Seconds>::infinity();

  /// `adam_threads`: all that candidates of one group may have. Without it, all that the request
  /// allows.
  Estimator(const TuningProblem& problem, std::vector<int> adam_threads, BoundTerms terms = {});
  explicit Estimator(const TuningProblem& problem);

  /// Peak of a candidate in normal form in every tier: exactly that of its lowered program.
  [[nodiscard]] TierBytes peak_bytes(const Candidate& candidate);
  /// Lower bound on the candidate's step time, in which every unit is fetched no more often than
  /// its slots make necessary. Never above the simulated period of the lowered program. Cheap terms
  /// come first; the rest are left out once the bound is above `cutoff`. Throws InputError when the
  /// platform lacks a curve that the candidate needs.
  [[nodiscard]] Seconds bound_seconds(const Candidate& candidate, Seconds cutoff = kNever);
  /// Lower bound valid for every candidate of `level`; pass their representative (no late updates,
  /// no speculation). Work may run in any order. For SearchLevel::Group, work that depends on who
  /// updates host-resident state is left out, and a faster lane never raises the bound.
  [[nodiscard]] Seconds bound_seconds(const Candidate& candidate, SearchLevel level,
                                      Seconds cutoff = kNever);
  /// Lower bound valid for every candidate between two placements: of each kind of work, as little
  /// as one of them makes, and of work that grows with neither, none.
  [[nodiscard]] Seconds bound_seconds(const FamilyReach& reach);
  /// Number of elements of each rank whose optimizer state is in host memory or on NVMe.
  [[nodiscard]] double host_elements(const Candidate& candidate) const;
  /// Tables that this and others may use.
  [[nodiscard]] BoundTableCache& tables() noexcept { return tables_; }

 private:
  struct UnitClass {
    std::string name;
    std::int64_t elements = 0;      ///< one unit's flat storage, padding included
    int units = 0;                  ///< with parameters
    int lent = 0;                   ///< whose parameters other units borrow
    std::vector<int> units_before;  ///< by unit index: members with a lower index
    /// Number of members with an index from `first` to before `end`.
    [[nodiscard]] int members(int first, int end) const {
      if (end <= first) return 0;
      return units_before[static_cast<std::size_t>(end)] -
             units_before[static_cast<std::size_t>(first)];
    }
  };
  /// Members of a class by where a candidate places their parameters.
  struct ParameterHomes {
    int device = 0, host = 0;
    int nvme = 0;  ///< part of host
  };
  /// Members of a class by where a candidate places them.
  struct Placed {
    int device_optimizer = 0, host_optimizer = 0;
    int nvme_optimizer = 0, streamed_optimizer = 0;  ///< parts of host_optimizer
    int late_optimizer = 0;                          ///< part of cpu_optimizer()
    ParameterHomes parameters;
    int nvme_gradients = 0;    ///< part of parameters.nvme, with gradients in the file too
    int staged_gradients = 0;  ///< part of host_optimizer, whose gradients pass through buffers
    /// Members whose state is in host memory, where the CPU updates it.
    [[nodiscard]] int cpu_optimizer() const noexcept {
      return host_optimizer - nvme_optimizer - streamed_optimizer;
    }
    /// Members of which host memory has versions, in place or copied.
    [[nodiscard]] int with_versions(Snapshot snapshot) const noexcept {
      return cpu_optimizer() + (snapshot == Snapshot::Copy ? device_optimizer : 0);
    }
    /// Members that the CPU updates as gradients arrive.
    [[nodiscard]] int early_optimizer() const noexcept { return cpu_optimizer() - late_optimizer; }
  };
  /// Least time that kernels of one micro-batch contribute to a step, by each of
  /// BoundTables::dual_bounds.
  using KernelSums = std::vector<Seconds>;
  /// Parts of KernelSums by unit. They are large, and few candidates want them.
  struct UnitKernelSums {
    std::vector<KernelSums> forward_from;  ///< forward from each unit on
    /// Backward with its recomputation, and recomputation alone, of units below each unit.
    std::vector<KernelSums> backward_below, recompute_below;
  };
  /// Memory that depends only on micro-batch, group, recomputation and offloaded outputs.
  struct ActivationBytes {
    Bytes peak = 0;    ///< on the device, above the static buffers
    Bytes pinned = 0;  ///< outputs on the host
    Bytes graphs = 0;  ///< CUDA graphs of one group
  };
  /// Bytes that do not depend on activations, and the candidate without these that has them.
  struct PlacedBytes {
    Candidate key{.batch = {.micro_batch = 0}};  ///< at first no candidate's
    TierBytes bytes;
  };
  /// Work that depends only on micro-batch, recomputation and offloaded outputs.
  struct Activations {
    LagrangianBound compute;         ///< phases of one micro-batch
    std::vector<PowerDraw> kernels;  ///< phases of one micro-batch, equal ones added up
    std::vector<PowerDraw> forward, backward, recomputed;  ///< kernels by unit
    std::map<int, KernelSums> kernel_sums;                 ///< by CPU threads
    std::map<int, UnitKernelSums> unit_kernel_sums;        ///< likewise
    /// Forward and backward of the units below each unit.
    std::vector<LagrangianBound> forward_below, backward_below;
    Seconds issue_seconds = 0;
    std::array<Seconds, kNumLanes> copies{};
    std::array<std::int64_t, kNumLanes> operations{};
  };
  /// Sum of one kind of operation over every chunk of a unit.
  struct ChunkSum {
    Seconds seconds = 0;
    Seconds last = 0;  ///< seconds of the last chunk
    std::int64_t operations = 0;
    /// Seconds of the first chunk: all but the last are equal.
    [[nodiscard]] Seconds first() const noexcept {
      return operations > 1 ? (seconds - last) / static_cast<double>(operations - 1) : last;
    }
  };
  /// Sums by unit class and kind of operation, for candidates that cut units alike.
  using ChunkSums = std::vector<std::vector<std::pair<ChunkWork, ChunkSum>>>;
  struct LaneWork;
  struct ClassWork;

  /// Program of one group under the candidate's activation policies, with all state on the device.
  [[nodiscard]] Program lower_group(const Candidate& candidate, std::int64_t group) const;
  [[nodiscard]] const ActivationBytes& activation_bytes(const Candidate& candidate);
  [[nodiscard]] ActivationBytes measure_activations(const Candidate& candidate) const;
  [[nodiscard]] Activations& activations(const Candidate& candidate);
  void add_operations(const Program& program, Activations& sums) const;
  [[nodiscard]] ChunkSums& chunk_sums(const Candidate& candidate);
  [[nodiscard]] ChunkSum chunk_sum(const Candidate& candidate, std::size_t unit_class,
                                   const ChunkWork& work) const;
  /// Bytes of all but activations and workspace, for the whole step.
  [[nodiscard]] const TierBytes& placed_bytes(const Candidate& candidate);
  [[nodiscard]] TierBytes sum_placed_bytes(const Candidate& candidate) const;
  [[nodiscard]] TierBytes state_bytes(const Candidate& candidate) const;
  [[nodiscard]] Bytes kept_state_bytes(const Candidate& candidate, const UnitClass& unit_class,
                                       const Placed& placed, const Program& types) const;
  [[nodiscard]] Bytes receive_buffer_bytes(const Candidate& candidate, const Program& types) const;
  /// Whether the peer keeps copies of the units of `c`, a candidate for one class.
  [[nodiscard]] bool copies_to_peer(const Candidate& c) const noexcept {
    return problem_.request.snapshot_copies > 1 && keeps_versions(c.snapshot) &&
           c.sharding != Sharding::Replicated;
  }
  /// Bytes of a rank's log of snapshots.
  [[nodiscard]] Bytes snapshot_bytes(const Candidate& candidate) const;
  /// Buffers in the class's gradient pool.
  [[nodiscard]] static int gradient_buffers(const Candidate& candidate,
                                            const UnitClass& unit_class);
  /// Accumulators in the class's pool.
  [[nodiscard]] static int accumulators(const Candidate& candidate, const Placed& placed) {
    return candidate.batch.group > 1 ? std::min(candidate.gradient_buffers, placed.host_optimizer)
                                     : 0;
  }
  [[nodiscard]] Placed place(const Candidate& candidate, const UnitClass& unit_class) const;
  /// Homes of the members with an index below `end`.
  [[nodiscard]] ParameterHomes parameter_homes(const Candidate& candidate,
                                               const UnitClass& unit_class, int end) const;
  /// Says what a class has at least of each, whatever placement between the two it gets.
  [[nodiscard]] Placed least_of(const Placed& fewest, const Placed& most) const;
  [[nodiscard]] LaneWork lane_work(const Candidate& candidate, SearchLevel level);
  [[nodiscard]] LaneWork lane_work(const FamilyReach& reach);
  [[nodiscard]] Seconds least_overlapped_seconds(const Candidate& candidate, const LaneWork& lanes,
                                                 SearchLevel level, Seconds cutoff);
  [[nodiscard]] Seconds overlapped_seconds(const Candidate& candidate, const LaneWork& lanes,
                                           SearchLevel level, Seconds cutoff);
  /// Adds phases of units, and what is the same for all placements.
  void add_common(const Candidate& candidate, LaneWork& lanes);
  void add_scalars(const Candidate& candidate, LaneWork& lanes) const;
  [[nodiscard]] KernelSums with_kernel(KernelSums sums, const PowerDraw& kernel, int adam_threads);
  [[nodiscard]] const KernelSums& kernel_sums(const Candidate& candidate);
  [[nodiscard]] const UnitKernelSums& unit_kernel_sums(const Candidate& candidate);
  /// Unit whose forward is the update barrier: it waits for all CPU updates of state in memory. -1:
  /// none.
  [[nodiscard]] int update_barrier_unit(const Candidate& candidate) const;
  /// Unit whose gradient the CPU takes last as gradients arrive, or first after backward where all
  /// its updates are late. There must be an update barrier, and nothing is clipped.
  [[nodiscard]] int last_gradient_unit(const Candidate& candidate, int barrier) const;
  /// The first unit with parameters, `from` one on.
  [[nodiscard]] std::size_t first_with_parameters(int from) const;
  /// The first unit, `from` one on, whose optimizer state is in host memory or in a file. There
  /// must be one.
  [[nodiscard]] std::size_t first_off_gpu(const Candidate& candidate, int from) const;
  /// Whether a unit has parameters whose state need not be on the GPU.
  [[nodiscard]] bool may_be_off_gpu(const Candidate& candidate, int unit) const;
  /// How `candidate` treats a class.
  [[nodiscard]] Candidate for_class(const Candidate& candidate, const UnitClass& unit_class) const {
    return athanor::for_class(candidate, unit_class.name, problem_.request.num_gpus, num_units_);
  }
  [[nodiscard]] Seconds parts_seconds(const Candidate& candidate, const LaneWork& lanes,
                                      Seconds cutoff);
  struct PhaseSum;
  struct Part;
  [[nodiscard]] static LagrangianBound part_seconds(Part part, const BoundTables& tables);
  [[nodiscard]] LagrangianBound inner_seconds(Candidate candidate, const LaneWork& lanes);
  [[nodiscard]] std::vector<Part> norm_parts(const Candidate& candidate, const LaneWork& lanes);
  [[nodiscard]] std::vector<Part> update_parts(const Candidate& candidate, const LaneWork& lanes);
  [[nodiscard]] std::vector<std::vector<Part>> boundary_parts(const Candidate& candidate,
                                                              const LaneWork& lanes);
  /// Phases of one micro-batch: all, and forward or backward of the units from `unit` on.
  [[nodiscard]] PhaseSum micro_batch_phases(const Candidate& candidate);
  [[nodiscard]] PhaseSum forward_from(const Candidate& candidate, std::size_t unit);
  [[nodiscard]] PhaseSum backward_from(const Candidate& candidate, std::size_t unit);
  [[nodiscard]] Seconds norm_cycle_seconds(const Candidate& candidate, const LaneWork& lanes);
  [[nodiscard]] Seconds late_cycle_seconds(const Candidate& candidate, const LaneWork& lanes);
  struct Serial;
  /// Serial work of the step boundary, or of the inner micro-batches.
  [[nodiscard]] std::vector<Serial> drains(const Candidate& candidate, const LaneWork& lanes,
                                           bool at_boundary);
  [[nodiscard]] std::vector<Serial> serials(const Candidate& candidate, const LaneWork& lanes,
                                            bool at_boundary);
  [[nodiscard]] static LagrangianBound serial_seconds(const Serial& serial, WorkValues busy,
                                                      std::span<const Seconds> kernels,
                                                      const BoundTables& tables);
  [[nodiscard]] Seconds stream_cycle_seconds(const Candidate& candidate, const LaneWork& lanes);
  [[nodiscard]] Seconds cycle_seconds(const Candidate& candidate, Seconds updates,
                                      const LagrangianBound& meanwhile);

  TuningProblem problem_;
  BoundTableCache tables_;
  std::vector<int> adam_threads_;
  BoundTerms terms_;
  int num_units_;
  std::vector<UnitClass> classes_;
  /// By micro-batch and group, then by units that recompute and outputs on the host.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::optional<ActivationBytes>>>
      activation_bytes_;
  std::vector<PlacedBytes> placed_bytes_;  ///< latest of each hash
  std::map<std::tuple<std::int64_t, int, int>, Activations> activations_;
  std::map<std::tuple<std::int64_t, Sharding, DataType, int>, ChunkSums> chunk_sums_;
};

}  // namespace athanor
