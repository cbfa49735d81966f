// SPDX-License-Identifier: Apache-2.0
// A backend: what a rank runs on.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/backend/device.hpp"
#include "executor/backend/lanes.hpp"
#include "sim/model/program.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace athanor {

/// A rank's device, its collectives with other ranks, and its lanes.
class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual Device& device() = 0;
  /// Collectives on device memory, for the collective lane and in its order.
  [[nodiscard]] virtual Collectives& collectives() = 0;
  /// Collectives on host memory, which return when they are done; for use outside steps.
  [[nodiscard]] virtual Collectives& host_collectives() = 0;
  /// Starts the lanes. `program` and `cancelled` outlive them; `cancelled` is set when a lane
  /// fails, so that others that wait inside an operation give up. `first_step` is the first to run.
  [[nodiscard]] virtual std::unique_ptr<Lanes> start_lanes(const Program& program,
                                                           std::int64_t first_step,
                                                           LaneCallbacks callbacks,
                                                           std::atomic<bool>& cancelled) = 0;
};

}  // namespace athanor
