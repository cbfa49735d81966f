// SPDX-License-Identifier: Apache-2.0
// Lane: something that does one thing at a time, on each rank.
#pragma once

#include <array>
#include <cstddef>

namespace athanor {

/// Executor of operations that does one thing at a time on each rank, in program order.
enum class Lane { Compute, Collective, H2D, D2H, CpuAdam, NvmeRead, NvmeWrite };
inline constexpr int kNumLanes = 7;
inline constexpr std::array<Lane, kNumLanes> kLanes{
    Lane::Compute, Lane::Collective, Lane::H2D,      Lane::D2H,
    Lane::CpuAdam, Lane::NvmeRead,   Lane::NvmeWrite};
/// Index of `lane` in arrays that hold one element per lane.
[[nodiscard]] constexpr std::size_t lane_index(Lane lane) noexcept {
  return static_cast<std::size_t>(lane);
}
[[nodiscard]] const char* lane_name(Lane lane) noexcept;  ///< from kLaneNames, as in files
[[nodiscard]] constexpr bool is_nvme_lane(Lane lane) noexcept {
  return lane == Lane::NvmeRead || lane == Lane::NvmeWrite;
}
/// Whether the host runs the lane itself instead of issuing its operations to a device.
[[nodiscard]] constexpr bool is_host_lane(Lane lane) noexcept {
  return lane == Lane::CpuAdam || is_nvme_lane(lane);
}

}  // namespace athanor
