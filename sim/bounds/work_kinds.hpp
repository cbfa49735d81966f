// SPDX-License-Identifier: Apache-2.0
// The kinds of work that bounds tell apart: one for each lane, and one for copies that add.
#pragma once

#include "sim/cost/contention.hpp"
#include "sim/model/lane.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace athanor {

/// Copies of Lane::D2H that add to sums in host memory are a kind of their own, after those of the
/// lanes: they slow others down more, and are slowed down more, than plain copies.
inline constexpr std::size_t kAddingCopies = kNumLanes;
inline constexpr std::size_t kNumWorkKinds = kNumLanes + 1;
/// Values that are indexed by work_index. The one of Lane::D2H is about plain copies.
using WorkValues = std::array<double, kNumWorkKinds>;

[[nodiscard]] constexpr std::size_t work_index(Lane lane, bool adds = false) noexcept {
  return lane == Lane::D2H && adds ? kAddingCopies : lane_index(lane);
}
[[nodiscard]] constexpr Lane lane_of_work(std::size_t kind) noexcept {
  return kind == kAddingCopies ? Lane::D2H : kLanes[kind];
}

/// A set of kinds of work, a bit for each.
using WorkSet = std::uint32_t;
[[nodiscard]] constexpr WorkSet work_bit(std::size_t kind) noexcept { return WorkSet{1} << kind; }
/// Returns the kinds of work that lanes do while exactly `running` are.
[[nodiscard]] constexpr WorkSet work_of(LaneSet running) noexcept {
  const LaneSet lanes = running & ~kD2HAdds;
  const bool adds = (running & kD2HAdds) != 0 && (running & lane_bit(Lane::D2H)) != 0;
  return adds ? (lanes & ~lane_bit(Lane::D2H)) | work_bit(kAddingCopies) : lanes;
}

}  // namespace athanor
