// SPDX-License-Identifier: Apache-2.0
// Plans as configurations of other systems: the nearest configuration, and the choices that it
// lacks.
#pragma once

#include "sim/model/plan.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Configuration text, and in `lost` one line per choice of the plan that the system has no key for
/// or whose key cannot express it. A line says how the system behaves instead, or where its user
/// sets the choice.
struct ExportedPlan {
  std::string text;
  std::vector<std::string> lost;
};

/// Returns DeepSpeed JSON (keys of its documentation, 0.19). The sharding of most units decides
/// ZeRO stage 0, 2 or 3. Sizes are in elements.
[[nodiscard]] ExportedPlan export_deepspeed(const Plan& plan);

/// Returns a configuration file of `accelerate launch` (1.15), as JSON, which is YAML too. It asks
/// for FSDP2 where everything is sharded and whole on one tier, for DDP where nothing is sharded,
/// else for DeepSpeed.
[[nodiscard]] ExportedPlan export_accelerate(const Plan& plan);

/// Returns TOML of torchtitan 0.2, the last line of releases that reads it. Later releases take the
/// same sections and keys on the command line (--training.local_batch_size 4).
[[nodiscard]] ExportedPlan export_torchtitan(const Plan& plan);

}  // namespace athanor
