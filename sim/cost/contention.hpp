// SPDX-License-Identifier: Apache-2.0
// What lanes that run at once do to each other, for every set of lanes, from what was measured on
// some.
#pragma once

#include "sim/model/platform.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace athanor {

/// A set of lanes of one rank, a bit for each.
using LaneSet = std::uint32_t;
inline constexpr LaneSet kNumLaneSets = LaneSet{1} << kNumLanes;
[[nodiscard]] constexpr LaneSet lane_bit(Lane lane) noexcept {
  return LaneSet{1} << static_cast<unsigned>(lane);
}

[[nodiscard]] LaneSet lanes_of(const ContentionSample& load);

/// One for each lane, by lane_index.
using LaneValues = std::array<double, kNumLanes>;

/// BoundTables of equal ranks that all run the same lanes. Gives back every measured load of
/// `num_ranks` ranks as it is, and 1 for a lane alone on one rank.
///
/// The logarithm of a lane's slowdown beside others is a sum over the sets that it belongs to, each
/// adding what was measured of it beyond what its parts explain (and 0 where nothing was measured).
/// Between measured numbers of ranks that is linear in the logarithm of the number, and constant
/// beyond them. What sets with CPU Adam add is in proportion to what Adam asks of memory:
/// `adam_share` of what it asked when they were measured.
class ContentionModel {
 public:
  ContentionModel(const std::vector<ContentionSample>& loads, int num_ranks, double adam_share = 1);
  /// Where each lane of `running` takes `slowdowns(running)` times as long.
  explicit ContentionModel(const std::function<LaneValues(LaneSet running)>& slowdowns);
  /// Of `num_ranks` ranks of a node of `platform`, each with `adam_threads` for CPU Adam.
  ContentionModel(const Platform& platform, int num_ranks, int adam_threads);

  /// Whether no lane slows another down.
  [[nodiscard]] bool none() const noexcept { return none_; }
  /// How many times longer an activity of `lane` takes while exactly `running` are; at least 1.
  [[nodiscard]] double slowdown(Lane lane, LaneSet running) const noexcept {
    return slowdown_[running][lane_index(lane)];
  }
  [[nodiscard]] const LaneValues& slowdowns(LaneSet running) const noexcept {
    return slowdown_[running];
  }
  /// Over all sets that `lane` can run in.
  [[nodiscard]] double least(Lane lane) const noexcept;
  [[nodiscard]] double most(Lane lane) const noexcept;

 private:
  void set(LaneSet running, const LaneValues& slowdowns);

  std::array<LaneValues, kNumLaneSets> slowdown_;
  bool none_ = true;
};

}  // namespace athanor
