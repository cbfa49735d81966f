// SPDX-License-Identifier: Apache-2.0
// All that a rank needs of the machine: its device, its place among the ranks, its lanes.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/backend/device.hpp"
#include "executor/backend/lanes.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/model/program.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace athanor {

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual Device& device() = 0;
  /// On device memory, on the collective lane, in its order.
  [[nodiscard]] virtual Collectives& collectives() = 0;
  /// On host memory; they return when they are done. For use outside steps.
  [[nodiscard]] virtual Collectives& host_collectives() = 0;
  /// Starts the lanes. `program` and `cancelled` outlive them; `cancelled` is set when a lane
  /// fails, so that others that wait inside an operation give up. Steps count from `first_step`.
  [[nodiscard]] virtual std::unique_ptr<Lanes> start_lanes(const Program& program,
                                                           std::int64_t first_step,
                                                           LaneCallbacks callbacks,
                                                           std::atomic<bool>& cancelled) = 0;
};

/// What athanor-cuda, the plugin with all CUDA code, needs to know of this process.
struct CudaRank {
  RankInfo rank;
  Bytes memory_limit = 0;  ///< of the GPU; 0 = none
};

/// The GPU `rank.local_rank` of this machine, with NCCL between ranks. WhichSamples the plugin.
/// Throws InputError that says what is missing and the way out.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const CudaRank& rank);

}  // namespace athanor
