// SPDX-License-Identifier: Apache-2.0
// The contention of lanes: how they slow each other down, for every set of lanes, from samples of
// some sets.
#pragma once

#include "sim/model/platform.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace athanor {

/// A set of lanes of one rank, a bit for each, and kD2HAdds.
using LaneSet = std::uint32_t;
/// Lane::D2H adds gradients to sums in host memory instead of copying: a kernel does that, which
/// takes multiprocessors and bandwidth from others. Means nothing in a set without Lane::D2H.
inline constexpr LaneSet kD2HAdds = LaneSet{1} << kNumLanes;
inline constexpr LaneSet kNumLaneSets = kD2HAdds << 1;
[[nodiscard]] constexpr LaneSet lane_bit(Lane lane) noexcept {
  return LaneSet{1} << static_cast<unsigned>(lane);
}

[[nodiscard]] LaneSet lanes_of(const ContentionSample& load);

/// Values that are indexed by lane_index.
using LaneValues = std::array<double, kNumLanes>;

/// Slowdowns of equal ranks that all run the same lanes. The model gives back every contention
/// sample of `num_ranks` ranks as it is, and 1 for a lane alone on one rank.
///
/// The logarithm of a lane's slowdown is a sum over the sets of running lanes that it belongs to.
/// Each set adds the part of its sample that its subsets do not explain, and 0 if it was not
/// sampled. A set whose Lane::D2H adds contains the one whose Lane::D2H copies. Between sampled
/// numbers of ranks the sum is linear in the logarithm of the number, and constant beyond them.
/// Sets with CPU Adam add in proportion to what Adam asks of memory: `adam_share` of what it asked
/// when they were sampled. Adam's own speed is never above the sampled one: fewer threads do not
/// make it faster where memory is what it waits for, and it then disturbs others as sampled.
class ContentionModel {
 public:
  ContentionModel(const std::vector<ContentionSample>& loads, int num_ranks, double adam_share = 1);
  /// Makes the model in which each lane of `running` takes `slowdowns(running)` times as long.
  explicit ContentionModel(const std::function<LaneValues(LaneSet running)>& slowdowns);
  /// Makes the model of `num_ranks` ranks of a node of `platform`, each with `adam_threads`
  /// threads of CPU Adam.
  ContentionModel(const Platform& platform, int num_ranks, int adam_threads);

  /// Whether no lane slows another down.
  [[nodiscard]] bool none() const noexcept { return none_; }
  /// Returns how many times as long an activity of `lane` takes while exactly `running` are; at
  /// least 1.
  [[nodiscard]] double slowdown(Lane lane, LaneSet running) const noexcept {
    return slowdown_[running][lane_index(lane)];
  }
  [[nodiscard]] const LaneValues& slowdowns(LaneSet running) const noexcept {
    return slowdown_[running];
  }
  /// Extremes of slowdown() over all sets that `lane` can run in.
  [[nodiscard]] double least(Lane lane) const noexcept;
  [[nodiscard]] double most(Lane lane) const noexcept;

 private:
  void set(LaneSet running, const LaneValues& slowdowns);

  std::array<LaneValues, kNumLaneSets> slowdown_;
  bool none_ = true;
};

/// Slowdowns of kernels of the compute lane and of an operation of the collective lane beside them.
struct BesideFilling {
  double compute = 1, collective = 1;
};

/// Returns the slowdowns where for `share` of its time alone the operation is a kernel that fills
/// the device (filling_seconds()). `compute` and `collective` are the slowdowns of the two lanes
/// beside a collective, which leaves most multiprocessors to others. Two kernels that fill the
/// device take turns: each gets half of it, or the operation as little as `collective` leaves it.
/// So the compute lane loses the time that the kernel takes alone. Neither slowdown is below that
/// beside a collective, which keeps lower bounds valid.
[[nodiscard]] BesideFilling beside_filling(double compute, double collective, double share);

}  // namespace athanor
