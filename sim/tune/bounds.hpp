// SPDX-License-Identifier: Apache-2.0
// Cheap limits on a program's steady-state step time: lower bound <= simulated <= serial sum.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/power.hpp"
#include "sim/model/program.hpp"
#include "sim/tune/fluid_limits.hpp"

#include <array>
#include <map>
#include <span>
#include <vector>

namespace athanor {

/// Factors on each lane's solo times: beside the lanes that disturb it least, and beside those that
/// disturb it most.
struct Slowdowns {
  std::array<double, kNumLanes> least{}, most{};
  std::array<double, kNumLanes>
      least_disturbed{};  ///< least, of what was measured of lanes at once
  /// Of measured interference and power; without either, of what lanes share.
  std::vector<FluidLimit> limits;
  bool limits_are_of_sharing = false;
  /// FluidLimit::weights of these, by lane: lanes with nothing to do cost no time.
  std::array<std::vector<double>, kNumLanes> lane_weights;
  std::array<std::vector<double>, kNumLanes> lane_idle_weights;  ///< and idle_weights
  std::vector<SharedResource> shared;  ///< with each rank's part of their capacities
};
/// With `adam_threads` for CPU Adam on each of `world_size` ranks.
[[nodiscard]] Slowdowns slowdowns(const Platform& platform, int world_size, int adam_threads);

/// slowdowns() of one platform, by adam_threads, each made once.
class SlowdownTable {
 public:
  SlowdownTable(const Platform& platform, int world_size)
      : platform_(platform), world_size_(world_size) {}
  [[nodiscard]] const Slowdowns& at(int adam_threads);

 private:
  const Platform& platform_;
  int world_size_;
  std::map<int, Slowdowns> by_threads_;
};

/// What `kernels` add to a step at least, by each of Slowdowns::limits.
[[nodiscard]] std::vector<Seconds> limited_seconds(std::span<const Draw> kernels,
                                                   const Slowdowns& slowdown);

/// The busiest lane or shared resource, when each of the ranks has `busy` to do.
[[nodiscard]] Seconds busiest_seconds(const LaneValues& busy, const Slowdowns& slowdown);
/// What all lanes can do together, when each has `busy` to do and the compute lane, besides,
/// `times` times kernels that add `kernels` by each of the limits. Of parts of a step that follow
/// each other the sum at any one price bounds the whole.
[[nodiscard]] PoweredSeconds fluid_seconds(const LaneValues& busy, std::span<const Seconds> kernels,
                                           double times, const Slowdowns& slowdown);

/// The busiest lane or shared resource over one step, the host that issues it, and the longest
/// cycle through one step. Never above the simulated period.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform);
/// The same for many programs on one platform: `slowdown` is slowdowns() of the program's ranks
/// and threads.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                                          const Slowdowns& slowdown);

/// Every operation of one rank issued and run after the other, slowed by full contention between
/// ranks. Never
/// below the simulated period.
[[nodiscard]] Seconds serial_seconds(const Program& program, const Platform& platform);

}  // namespace athanor
