// SPDX-License-Identifier: Apache-2.0
// Measures several machines and the network between them, in the ranks that a launcher has started.
#pragma once

#include "calibrate/machine/calibrate_machine.hpp"
#include "executor/backend/host_collectives.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <optional>

namespace athanor {

/// Measures the machines of a job, for the CPU backend. Every rank calls it with equal options;
/// rank 0 gets the platform, which is its own node with the network to the others, and they get
/// nothing. Throws as calibrate_machine() does.
[[nodiscard]] std::optional<Platform> calibrate_job(const CalibrationOptions& options,
                                                    const RankInfo& rank, HostCollectives& ranks);

}  // namespace athanor
