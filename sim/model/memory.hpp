// SPDX-License-Identifier: Apache-2.0
// Memory accounting: the peak of a program in every tier, known before anything starts.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"
#include "sim/model/tier.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Peak bytes per rank. They are exact: within a step, device memory is allocated and freed on the
/// compute lane alone, in program order, so the peak does not depend on timing.
[[nodiscard]] TierBytes peak_bytes(const Program& program);

/// Device memory at one operation of the compute lane.
struct MemoryPoint {
  std::int32_t operation = 0;
  Bytes peak = 0;   ///< highest level while it runs
  Bytes after = 0;  ///< level after it
};
/// Device memory at every operation of the compute lane, in program order.
[[nodiscard]] std::vector<MemoryPoint> device_memory_profile(const Program& program);

/// Pinned and pageable memory of all ranks of a node.
[[nodiscard]] constexpr Bytes node_host_bytes(const TierBytes& peak, int ranks_per_node) noexcept {
  return (peak.pinned + peak.host) * ranks_per_node;
}

/// Files of all ranks of a node.
[[nodiscard]] constexpr Bytes node_nvme_bytes(const TierBytes& peak, int ranks_per_node) noexcept {
  return peak.nvme * ranks_per_node;
}

/// Memory limits of one rank (gpu) and of one node (host: pinned and pageable memory of all its
/// ranks; nvme: their files); 0 = no limit.
struct MemoryLimits {
  Bytes gpu = 0;
  Bytes host = 0;
  Bytes nvme = 0;
};

/// Bytes by which `need` exceeds `limit`; 0 where it fits or there is no limit.
[[nodiscard]] constexpr Bytes excess_bytes(Bytes need, Bytes limit) noexcept {
  return limit > 0 && need > limit ? need - limit : 0;
}

/// Bytes by which a peak per rank exceeds the limits of its device and of its node, over all tiers.
[[nodiscard]] constexpr Bytes excess_bytes(const TierBytes& peak, int ranks_per_node,
                                           const MemoryLimits& limits) noexcept {
  return excess_bytes(peak.gpu, limits.gpu) +
         excess_bytes(node_host_bytes(peak, ranks_per_node), limits.host) +
         excess_bytes(node_nvme_bytes(peak, ranks_per_node), limits.nvme);
}

/// Returns whether a peak per rank fits the limits of its device and of its node.
[[nodiscard]] constexpr bool fits(const TierBytes& peak, int ranks_per_node,
                                  const MemoryLimits& limits) noexcept {
  return excess_bytes(peak, ranks_per_node, limits) == 0;
}

/// Sentences about the tiers that overflow: tier, need, limit and excess. Empty when all fit.
[[nodiscard]] std::vector<std::string> memory_overflows(const TierBytes& peak, int ranks_per_node,
                                                        const MemoryLimits& limits);

}  // namespace athanor
