// SPDX-License-Identifier: Apache-2.0
// Plans as configurations of other systems: the nearest configuration, and the choices that it
// cannot say.
#pragma once

#include "sim/model/plan.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Configuration text, and in `lost` one line per choice of the plan that the system has no key for
/// or that its key cannot express. The line says what the system does instead, or where its user
/// says it.
struct ExportedPlan {
  std::string text;
  std::vector<std::string> lost;
};

/// Returns DeepSpeed JSON (keys of its documentation, 0.19): ZeRO stage 0, 2 or 3 by the
/// sharding of most units; sizes are elements.
[[nodiscard]] ExportedPlan export_deepspeed(const Plan& plan);

/// Returns a configuration file of `accelerate launch` (1.15), as JSON, which is YAML too: FSDP2 if
/// everything is sharded and whole on one tier, DeepSpeed if only part is, DDP if nothing is.
[[nodiscard]] ExportedPlan export_accelerate(const Plan& plan);

/// Returns TOML of torchtitan 0.2, the last line of releases that reads it. Later ones take the
/// same sections and keys on the command line (--training.local_batch_size 4).
[[nodiscard]] ExportedPlan export_torchtitan(const Plan& plan);

}  // namespace athanor
