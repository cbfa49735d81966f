// SPDX-License-Identifier: Apache-2.0
// Memory accounting: the peak of a program in every tier, known before anything starts.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor {

[[nodiscard]] Bytes& bytes_of(TierBytes& bytes, Tier tier) noexcept;

/// Peak bytes per rank. Exact: dynamic device memory is taken and given back on the compute lane
/// alone, in program order, so the peak does not depend on timing.
[[nodiscard]] TierBytes peak_bytes(const Program& program);

/// Device memory after each operation of the compute lane, for timelines: (operation, bytes live
/// while it runs at its peak, bytes live after it).
struct MemoryPoint {
  std::int32_t operation = 0;
  Bytes peak = 0;
  Bytes after = 0;
};
[[nodiscard]] std::vector<MemoryPoint> device_memory_profile(const Program& program);

/// Pinned and pageable memory that all ranks of a node take.
[[nodiscard]] constexpr Bytes node_host_bytes(const TierBytes& peak, int ranks_per_node) noexcept {
  return (peak.pinned + peak.host) * ranks_per_node;
}

/// Files of all ranks of a node.
[[nodiscard]] constexpr Bytes node_nvme_bytes(const TierBytes& peak, int ranks_per_node) noexcept {
  return peak.nvme * ranks_per_node;
}

/// Limits of one rank (gpu) and of one node (host: pinned and pageable memory of all its ranks;
/// nvme: their files); 0 = no limit.
struct MemoryLimits {
  Bytes gpu = 0;
  Bytes host = 0;
  Bytes nvme = 0;
};

/// Empty when the program fits; else one sentence per tier that overflows: tier, need, limit,
/// excess.
[[nodiscard]] std::vector<std::string> memory_overflows(const TierBytes& peak, int ranks_per_node,
                                                        const MemoryLimits& limits);

}  // namespace athanor
