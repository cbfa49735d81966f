// SPDX-License-Identifier: Apache-2.0
// PlanRequest: what the user asks of a plan, and what follows from that alone.
#pragma once

#include "sim/model/memory.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Whether plans issue units' phases as CUDA graphs. Bits are the same either way.
enum class CudaGraphs {
  Off,
  On,
  Auto  ///< where launches may be in the way; see takes_graphs()
};

struct PlanRequest {
  int num_gpus = 1;               ///< ranks, on one node or on all devices of several
  std::int64_t global_batch = 0;  ///< sequences per step over all ranks
  MemoryLimits limits = {};       ///< 0 = all of the platform's; of NVMe, auto takes none
  Clipping clipping = Clipping::None;
  double max_gradient_norm = 1.0;                          ///< used with clipping
  double clipped_share = 0;                                ///< share of steps; see Plan
  std::optional<std::int64_t> micro_batch = std::nullopt;  ///< absent: chosen
  std::optional<int> adam_threads = std::nullopt;          ///< per rank; absent: chosen
  Snapshot snapshot = Snapshot::None;
  bool tries_snapshots = false;  ///< auto takes versions or copies where that is faster than
                                 ///< `snapshot`: Redo, or Versions where no redo log can be kept
  int snapshot_every = 1;        ///< Plan::snapshot_every; more only with Snapshot::Copy
  int snapshot_copies = 1;       ///< Plan::snapshot_copies; 2 only where there are versions
  SnapshotSend snapshot_send = SnapshotSend::Direct;  ///< another one only with 2 copies
  std::string_view snapshot_option = "--snapshot";    ///< asked for all that, as errors name it;
                                                      ///< lives for ever
  AdamState adam_state = AdamState::Float32;          ///< never chosen: it changes what is learnt
  bool deterministic = true;                 ///< Plan::deterministic; never chosen: it changes bits
  CudaGraphs cuda_graphs = CudaGraphs::Off;  ///< rules of other systems do not take them by Auto
};

/// Split of a rank's share of the global batch into micro-batches, and of these into groups.
struct BatchSplit {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t group = 1;  ///< Plan::micro_batch_group
  [[nodiscard]] constexpr std::int64_t num_groups() const noexcept { return accumulation / group; }
  auto operator<=>(const BatchSplit&) const = default;
};

/// Checks that a plan can meet the request on `platform` for `profile`. Throws InputError that
/// names the command-line option where none can.
void validate_request(const PlanRequest& request, const Profile& profile, const Platform& platform);

/// Returns the memory of one GPU: the request's cap, else all that it has. Plans may take less of
/// it; see effective_limits().
[[nodiscard]] Bytes device_memory(const PlanRequest& request, const Platform& platform);

/// Returns whether the platform says how fast optimizer state passes between its files and the CPU.
[[nodiscard]] bool has_nvme(const Platform& platform) noexcept;

/// Returns the limits in force: the request's, else the platform's. On CUDA, a platform's limit
/// excludes memory that plans do not count: 5 % of a GPU and of the host, at least 2 and 4 GiB.
[[nodiscard]] MemoryLimits effective_limits(const PlanRequest& request, const Platform& platform);

/// Returns the profiled micro-batch sizes that divide a rank's share of the global batch, largest
/// first, or the requested size alone. Throws InputError when there is none; the message lists what
/// would work.
[[nodiscard]] std::vector<BatchSplit> batch_splits(const PlanRequest& request,
                                                   const Profile& profile);

/// Returns the numbers of CPU Adam threads that were calibrated and leave every rank its own cores,
/// ascending, or the requested number alone. Never empty: {1} where CPU Adam was not calibrated.
[[nodiscard]] std::vector<int> adam_thread_choices(const PlanRequest& request,
                                                   const Platform& platform);

/// Lowers `plan` and returns its peak in every tier.
[[nodiscard]] TierBytes plan_peak_bytes(const Profile& profile, const Plan& plan);

/// Returns the sum over all tiers.
[[nodiscard]] constexpr Bytes total_bytes(const TierBytes& peak) noexcept {
  return peak.gpu + peak.pinned + peak.host + peak.nvme;
}

}  // namespace athanor
