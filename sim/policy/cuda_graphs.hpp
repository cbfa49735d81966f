// SPDX-License-Identifier: Apache-2.0
// When a plan issues units' phases as CUDA graphs.
#pragma once

#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"

#include <cstdint>

namespace athanor {

/// Times of one micro-batch, forward with kept activations and backward, over all units.
struct LaunchLoad {
  Seconds device = 0, issue = 0;                    ///< launched kernel by kernel
  Seconds replayed_device = 0, replayed_issue = 0;  ///< as CUDA graphs; 0: not measured
};

[[nodiscard]] LaunchLoad launch_load(const Profile& profile, std::int64_t micro_batch,
                                     bool deterministic);

/// Whether CUDA graphs may make a step faster. They do where the device waits for launches. One
/// thread issues everything, copies and collectives too, and waits in between; as long as phases
/// take it less than half of the time that the device works on them, it stays ahead. Graphs also
/// have shorter gaps between kernels, which counts from one part in a hundred on.
[[nodiscard]] bool graphs_may_pay(const LaunchLoad& load) noexcept;

/// Whether a plan for `request` with this micro-batch size takes them.
[[nodiscard]] bool takes_graphs(const Profile& profile, const PlanRequest& request,
                                std::int64_t micro_batch);

}  // namespace athanor
