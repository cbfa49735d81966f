// SPDX-License-Identifier: Apache-2.0
// PlanRequest: what the user asks of a plan, and what follows from it alone.
#pragma once

#include "sim/model/memory.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

struct PlanRequest {
  int num_gpus = 1;               ///< ranks, on one node or on all devices of several
  std::int64_t global_batch = 0;  ///< sequences per step over all ranks
  MemoryLimits limits = {};       ///< 0 = what the platform has; of NVMe, none
  Clipping clipping = Clipping::None;
  double max_gradient_norm = 1.0;                          ///< used with clipping
  double clipped_share = 0;                                ///< of steps; see Plan
  std::optional<std::int64_t> micro_batch = std::nullopt;  ///< absent: chosen
  std::optional<int> adam_threads = std::nullopt;          ///< per rank; absent: chosen
};

/// One way to split a rank's share of the global batch.
struct BatchSplit {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  auto operator<=>(const BatchSplit&) const = default;
};

/// Throws InputError, named by command-line option, when the request is impossible on `platform` or
/// for `profile` whatever the plan.
void validate_request(const PlanRequest& request, const Profile& profile, const Platform& platform);

/// Memory of one GPU: what the request caps it to, else all that it has. See effective_limits for
/// what plans may take of it.
[[nodiscard]] Bytes device_memory(const PlanRequest& request, const Platform& platform);

/// Whether the platform says how fast optimizer state passes between its files and the CPU.
[[nodiscard]] bool has_nvme(const Platform& platform) noexcept;

/// The limits in force: the request's, else the platform's, of a GPU less what plans do not count:
/// 5 % of its memory, at least 2 GiB.
[[nodiscard]] MemoryLimits effective_limits(const PlanRequest& request, const Platform& platform);

/// Profiled micro-batch sizes that divide a rank's share of the global batch (or the requested one
/// alone), largest first. Throws InputError when there is none; the message lists what would work.
[[nodiscard]] std::vector<BatchSplit> batch_splits(const PlanRequest& request,
                                                   const Profile& profile);

/// CPU Adam thread counts that were calibrated and leave every rank its own cores, ascending (or
/// the requested one alone). Never empty: {1} where CPU Adam was not calibrated.
[[nodiscard]] std::vector<int> adam_thread_choices(const PlanRequest& request,
                                                   const Platform& platform);

/// Peak of `plan` in every tier, by lowering it.
[[nodiscard]] TierBytes plan_peak_bytes(const Profile& profile, const Plan& plan);

/// Whether a peak per rank fits the limits of its device and of its node.
[[nodiscard]] bool fits(const TierBytes& peak, int ranks_per_node, const MemoryLimits& limits);

/// All tiers together.
[[nodiscard]] constexpr Bytes total_bytes(const TierBytes& peak) noexcept {
  return peak.gpu + peak.pinned + peak.host + peak.nvme;
}

}  // namespace athanor
