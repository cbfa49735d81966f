// SPDX-License-Identifier: Apache-2.0
// The host backend: arena, MPI or a single process, threads.
#pragma once

#include "executor/backend/backend.hpp"
#include "executor/backend/host_device.hpp"

namespace athanor {

/// The CPU backend of one rank.
class HostBackend final : public Backend {
 public:
  /// `memory_limit` is that of the device arena; 0 = no limit.
  HostBackend(Collectives& collectives, Bytes memory_limit)
      : device_(memory_limit), collectives_(collectives) {}

  [[nodiscard]] Device& device() override { return device_; }
  [[nodiscard]] Collectives& collectives() override { return collectives_; }
  [[nodiscard]] Collectives& host_collectives() override { return collectives_; }
  [[nodiscard]] std::unique_ptr<Lanes> start_lanes(const Program& program, std::int64_t first_step,
                                                   LaneCallbacks callbacks,
                                                   std::atomic<bool>& cancelled) override;

 private:
  HostDevice device_;
  Collectives& collectives_;
};

}  // namespace athanor
