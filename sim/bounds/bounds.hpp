// SPDX-License-Identifier: Apache-2.0
// Lower bounds on a program's steady-state step time. README.md and theorems.md state them.
#pragma once

#include "sim/bounds/bound_terms.hpp"
#include "sim/bounds/lp_dual_bounds.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <map>
#include <span>
#include <vector>

namespace athanor {

/// Everything that bounds need to know of a platform with a number of ranks and of CPU threads.
struct BoundTables {
  /// Factor on each lane's solo times, with the other lanes that slow it down least.
  std::array<double, kNumLanes> least_slowdown{};
  /// The measured part of least_slowdown: 1 where no contention was measured.
  std::array<double, kNumLanes> least_measured_slowdown{};
  /// Bounds from measured contention and power; without either, from max-min sharing.
  std::vector<DualBound> dual_bounds;
  bool dual_bounds_are_max_min = false;
  /// Weights of the dual bounds, by lane and bound, so that idle lanes are skipped.
  std::array<std::vector<double>, kNumLanes> lane_weights;
  std::array<std::vector<double>, kNumLanes> lane_idle_weights;  ///< idle_weights likewise
  std::vector<SharedResource> shared;                            ///< capacity: one rank's part
  BoundTerms terms;  ///< terms of the bounds that use these tables
};
/// Makes the tables of `world_size` ranks with `adam_threads` for CPU Adam on each. 0: for parts of
/// a step in which the CPU does nothing.
[[nodiscard]] BoundTables bound_tables(const Platform& platform, int world_size, int adam_threads,
                                       BoundTerms terms = {});

/// Tables of one platform by number of CPU threads, each made once.
class BoundTableCache {
 public:
  BoundTableCache(const Platform& platform, int world_size, BoundTerms terms = {})
      : platform_(platform), world_size_(world_size), terms_(terms) {}
  [[nodiscard]] const BoundTables& at(int adam_threads);

 private:
  const Platform& platform_;
  int world_size_;
  BoundTerms terms_;
  std::map<int, BoundTables> by_threads_;
};

/// Least time that `kernels` contribute to a step, under each of BoundTables::dual_bounds.
[[nodiscard]] std::vector<Seconds> dual_kernel_seconds(std::span<const PowerDraw> kernels,
                                                       const BoundTables& tables);

/// Time of the busiest lane or shared resource when each rank has `busy` to do.
[[nodiscard]] Seconds busiest_seconds(const LaneValues& busy, const BoundTables& tables);
/// Lower bound on doing `busy` on all lanes plus `times` repetitions of the kernels, which
/// contribute `kernels` under each dual bound. Bounds of consecutive parts of a step may be added
/// if they use the same multiplier.
[[nodiscard]] LagrangianBound dual_bound_seconds(const LaneValues& busy,
                                                 std::span<const Seconds> kernels, double times,
                                                 const BoundTables& tables);

/// Largest of: the busiest lane or shared resource, the dual bound, the host's issue times, and the
/// longest cycle through one step. Never above the simulated period.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform);
/// Returns that bound from `tables` made before, for the program's ranks and threads.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                                          const BoundTables& tables);

}  // namespace athanor
