// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/host_backend.hpp"

#include "executor/backend/lane_scheduler.hpp"

#include <utility>

namespace athanor {

std::unique_ptr<Lanes> HostBackend::start_lanes(const Program& program, std::int64_t first_step,
                                                LaneCallbacks callbacks,
                                                std::atomic<bool>& cancelled) {
  return std::make_unique<LaneScheduler>(program, first_step, std::move(callbacks), cancelled);
}

}  // namespace athanor
