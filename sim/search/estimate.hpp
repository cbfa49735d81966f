// SPDX-License-Identifier: Apache-2.0
// What a candidate needs and at least takes, in closed form: a search of hundreds of thousands of
// candidates cannot lower each of them.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/search/candidate_groups.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor {

/// One operation on a chunk, whichever it is.
struct ChunkWork {
  OpKind kind;
  Lane lane;
  bool accumulate = false;
  bool speculative = false;
  InFile in_file = {};
  bool operator==(const ChunkWork&) const = default;
};

/// Memory and a lower bound of any candidate for one profile, platform and request. Units of one
/// class are alike, so a candidate is a handful of counts per class. Tables fill as candidates ask
/// for them; the referenced objects outlive this one.
class Estimator {
 public:
  static constexpr Seconds kNever = std::numeric_limits<Seconds>::infinity();

  /// `adam_threads`: of candidates of one group; without, those that the request leaves open.
  Estimator(const Profile& profile, const Platform& platform, const PlanRequest& request,
            std::vector<int> adam_threads);
  Estimator(const Profile& profile, const Platform& platform, const PlanRequest& request);

  /// Peak in every tier of a candidate in normal form: exactly that of its lowered program.
  [[nodiscard]] TierBytes peak_bytes(const Candidate& candidate);
  /// The busiest lane, shared resource or issuing host, when every unit is fetched again no more
  /// often than its slots make necessary, in the step or in those parts of it that follow each
  /// other. Never above the simulated period of the lowered program. No better than `enough` for
  /// certain: what is cheap comes first.
  /// Throws InputError when the platform lacks a curve that the candidate needs.
  [[nodiscard]] Seconds bound_seconds(const Candidate& candidate, Seconds cutoff = kNever);
  /// The same of all candidates of `scope`, by the one that has neither late updates nor
  /// speculates: in what order lanes do what they have to is left open, and of a Group all that the
  /// CPU does, and for it the device. Never above bound_seconds of any of them, and that of a Group
  /// no higher where a lane is faster.
  [[nodiscard]] Seconds bound_seconds(const Candidate& candidate, SearchLevel scope,
                                      Seconds cutoff = kNever);
  /// Elements of each rank whose optimizer state is in host memory or on NVMe.
  [[nodiscard]] double host_elements(const Candidate& candidate) const;

 private:
  struct UnitClass {
    std::int64_t elements = 0;      ///< of one unit's flat storage, padding included
    int units = 0;                  ///< with parameters
    std::vector<int> units_before;  ///< by unit index: members with a lower one
    /// Those with an index from `first` to before `end`.
    [[nodiscard]] int members(int first, int end) const {
      if (end <= first) return 0;
      return units_before[static_cast<std::size_t>(end)] -
             units_before[static_cast<std::size_t>(first)];
    }
  };
  /// Members of a class by where a candidate places their parameters.
  struct ParameterHomes {
    int device = 0, host = 0;
    int nvme = 0;  ///< of host
  };
  /// Members of a class by where a candidate places them.
  struct Placed {
    int device_optimizer = 0, host_optimizer = 0;
    int nvme_optimizer = 0, streamed_optimizer = 0;  ///< of host_optimizer
    int late_optimizer = 0;                          ///< of cpu_optimizer()
    ParameterHomes parameters;
    int nvme_gradients = 0;  ///< of parameters.nvme, with gradients in the file too
    /// With state in memory beside the CPU, which updates it.
    [[nodiscard]] int cpu_optimizer() const noexcept {
      return host_optimizer - nvme_optimizer - streamed_optimizer;
    }
    /// Of these, those that it updates as gradients arrive.
    [[nodiscard]] int early_optimizer() const noexcept { return cpu_optimizer() - late_optimizer; }
  };
  /// What kernels of one micro-batch add to a step, by each of BoundTables::limits.
  struct ThrottledWork {
    std::vector<Seconds> all;
    std::vector<std::vector<Seconds>> forward_from;  ///< of these, forward from each unit on
    /// Backward with what it recomputes, and the latter alone, below each unit.
    std::vector<std::vector<Seconds>> backward_below, recompute_below;
  };
  /// What depends on micro-batch, recomputation and offloaded outputs alone.
  struct Activations {
    Bytes peak_bytes = 0;            ///< on the device, above what is there all the time
    Bytes pinned_bytes = 0;          ///< outputs on the host
    LagrangianBound compute;         ///< of one micro-batch
    std::vector<PowerDraw> kernels;  ///< of the same, equal ones added up
    std::vector<PowerDraw> forward, backward, recomputed;  ///< of that, by unit
    std::map<int, ThrottledWork> limited;                  ///< by CPU threads
    /// Of that, forward and backward of units with a lower index than this.
    std::vector<LagrangianBound> forward_below, backward_below;
    Seconds issue_seconds = 0;
    std::array<Seconds, kNumLanes> copies{};
    std::array<std::int64_t, kNumLanes> operations{};
  };
  /// One kind of operation on every chunk of a unit.
  struct ChunkSum {
    Seconds seconds = 0;
    std::int64_t operations = 0;
  };
  /// Of candidates that cut units alike, by unit class: the few kinds that there are.
  using ChunkSums = std::vector<std::vector<std::pair<ChunkWork, ChunkSum>>>;
  struct LaneWork;
  struct ClassWork;

  [[nodiscard]] Activations& activations(const Candidate& candidate);
  void add_operations(const Program& program, Activations& sums) const;
  [[nodiscard]] ChunkSums& chunk_sums(const Candidate& candidate);
  [[nodiscard]] ChunkSum chunk_sum(const Candidate& candidate, std::size_t unit_class,
                                   const ChunkWork& work) const;
  [[nodiscard]] TierBytes state_bytes(const Candidate& candidate) const;
  [[nodiscard]] Placed place(const Candidate& candidate, const UnitClass& unit_class) const;
  /// Of members with an index below `end`.
  [[nodiscard]] ParameterHomes parameter_homes(const Candidate& candidate,
                                               const UnitClass& unit_class, int end) const;
  [[nodiscard]] LaneWork lane_work(const Candidate& candidate, SearchLevel scope);
  [[nodiscard]] Seconds overlapped_seconds(const Candidate& candidate, const LaneWork& load,
                                           SearchLevel scope, Seconds cutoff);
  void add_scalars(const Candidate& candidate, LaneWork& load) const;
  [[nodiscard]] const ThrottledWork& throttled_kernels(const Candidate& candidate);
  /// Of a second of it, by each of BoundTables::limits.
  [[nodiscard]] const std::vector<double>& kernel_weights(const PowerDraw& kernel,
                                                          int adam_threads);
  /// The unit whose forward waits for all updates by the CPU of state in memory; -1: no unit's.
  [[nodiscard]] int update_barrier_unit(const Candidate& candidate) const;
  /// The first unit with parameters, `from` one on.
  [[nodiscard]] std::size_t first_with_parameters(int from) const;
  [[nodiscard]] Seconds parted_seconds(const Candidate& candidate, const LaneWork& load);
  [[nodiscard]] Seconds norm_cycle_seconds(const Candidate& candidate, const LaneWork& load);
  [[nodiscard]] Seconds late_cycle_seconds(const Candidate& candidate, const LaneWork& load);
  struct Serial;
  /// In the middle of a step, or at its turn.
  [[nodiscard]] std::vector<Serial> serials(const Candidate& candidate, const LaneWork& load,
                                            bool at_turn);
  [[nodiscard]] static LagrangianBound serial_seconds(const Serial& serial, LaneValues busy,
                                                      std::span<const Seconds> kernels,
                                                      double times, const BoundTables& slowdowns);
  [[nodiscard]] Seconds stream_cycle_seconds(const Candidate& candidate, const LaneWork& load);
  [[nodiscard]] Seconds cycle_seconds(const Candidate& candidate, Seconds before_barrier,
                                      const LagrangianBound& beside);

  const Profile& profile_;
  const Platform& platform_;
  const PlanRequest& request_;
  BoundTableCache slowdowns_;
  std::vector<int> adam_threads_;
  int num_units_;
  std::vector<UnitClass> classes_;
  std::map<std::tuple<std::int64_t, int, int>, Activations> activations_;
  std::map<std::tuple<int, double, double>, std::vector<double>> kernel_weights_;
  std::map<std::tuple<std::int64_t, Sharding, DataType, int>, ChunkSums> chunk_sums_;
};

}  // namespace athanor
