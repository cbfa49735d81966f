// SPDX-License-Identifier: Apache-2.0
// Plans as configurations of other systems: the nearest one, and what it does not say.
#pragma once

#include "sim/model/plan.hpp"

#include <string>
#include <vector>

namespace athanor {

/// What `lost` says: one line per choice of the plan that the system has no key for or that its key
/// cannot express, with what the system does instead or where its user says it.
struct ExportedPlan {
  std::string text;
  std::vector<std::string> lost;
};

/// DeepSpeed JSON (keys of its documentation, 0.19). ZeRO stage 0, 2 or 3 by the sharding of most
/// units; sizes are elements.
[[nodiscard]] ExportedPlan export_deepspeed(const Plan& plan);

/// A configuration file of `accelerate launch` (1.15), as JSON, which is YAML too: FSDP2 where
/// everything is sharded and whole on one tier, DeepSpeed where it is not, DDP where nothing is.
[[nodiscard]] ExportedPlan export_accelerate(const Plan& plan);

/// TOML of torchtitan 0.2, the last line of releases that reads it; later ones take the same
/// sections and keys on the command line (--training.local_batch_size 4).
[[nodiscard]] ExportedPlan export_torchtitan(const Plan& plan);

}  // namespace athanor
