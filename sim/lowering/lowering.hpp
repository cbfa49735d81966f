// SPDX-License-Identifier: Apache-2.0
// Turns a plan into what runs and what is simulated.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/program.hpp"

namespace athanor {

/// Lowers one training step. Decides order, waits, cache slots (on the known order of use) and
/// memory; neither the engine nor the executor decides anything.
/// Throws InputError when the plan does not fit the profile's architecture, dtype, sequence length
/// or micro-batch sizes.
[[nodiscard]] Program lower(const Profile& profile, const Plan& plan);

/// Lowers the evaluation of one global batch: forward and the losses. It uses the same pools and
/// homes as training, so it runs between two steps in memory that is there. Throws as lower().
[[nodiscard]] Program lower_evaluation(const Profile& profile, const Plan& plan);

}  // namespace athanor
