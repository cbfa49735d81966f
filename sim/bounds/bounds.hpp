// SPDX-License-Identifier: Apache-2.0
// Cheap limits on a program's steady-state step time: lower bound <= simulated <= serial sum.
#pragma once

#include "sim/bounds/lp_dual_bounds.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <map>
#include <span>
#include <vector>

namespace athanor {

/// Factors on each lane's solo times: beside the lanes that disturb it least, and beside those that
/// disturb it most.
struct BoundTables {
  std::array<double, kNumLanes> least{}, most{};
  std::array<double, kNumLanes>
      least_disturbed{};  ///< least, of what was measured of lanes at once
  /// Of measured interference and power; without either, of what lanes share.
  std::vector<DualBound> limits;
  bool limits_are_of_sharing = false;
  /// DualBound::weights of these, by lane: lanes with nothing to do cost no time.
  std::array<std::vector<double>, kNumLanes> lane_weights;
  std::array<std::vector<double>, kNumLanes> lane_idle_weights;  ///< and idle_weights
  std::vector<SharedResource> shared;  ///< with each rank's part of their capacities
};
/// With `adam_threads` for CPU Adam on each of `world_size` ranks.
[[nodiscard]] BoundTables bound_tables(const Platform& platform, int world_size, int adam_threads);

/// bound_tables() of one platform, by adam_threads, each made once.
class BoundTableCache {
 public:
  BoundTableCache(const Platform& platform, int world_size)
      : platform_(platform), world_size_(world_size) {}
  [[nodiscard]] const BoundTables& at(int adam_threads);

 private:
  const Platform& platform_;
  int world_size_;
  std::map<int, BoundTables> by_threads_;
};

/// What `kernels` add to a step at least, by each of BoundTables::limits.
[[nodiscard]] std::vector<Seconds> throttled_seconds(std::span<const PowerDraw> kernels,
                                                     const BoundTables& slowdown);

/// The busiest lane or shared resource, when each of the ranks has `busy` to do.
[[nodiscard]] Seconds busiest_seconds(const LaneValues& busy, const BoundTables& slowdown);
/// What all lanes can do together, when each has `busy` to do and the compute lane, besides,
/// `times` times kernels that add `kernels` by each of the limits. Of parts of a step that follow
/// each other the sum at any one price bounds the whole.
[[nodiscard]] LagrangianBound dual_bound_seconds(const LaneValues& busy,
                                                 std::span<const Seconds> kernels, double times,
                                                 const BoundTables& slowdown);

/// The busiest lane or shared resource over one step, the host that issues it, and the longest
/// cycle through one step. Never above the simulated period.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform);
/// The same for many programs on one platform: `slowdown` is bound_tables() of the program's ranks
/// and threads.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                                          const BoundTables& slowdown);

/// Every operation of one rank issued and run after the other, slowed by full contention between
/// ranks. Never
/// below the simulated period.
[[nodiscard]] Seconds serial_seconds(const Program& program, const Platform& platform);

}  // namespace athanor
