// SPDX-License-Identifier: Apache-2.0
// Training run of one process, from its memory to its last file.
#pragma once

#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/backend/backend.hpp"
#include "executor/watch/job_watch.hpp"

#include <string>

namespace athanor::cli {

/// Trains, checkpoints, measures and exports. Every rank calls it. `run_json` is the object that
/// run.json gets. A finished run is exported, if --export says so, and is left as it is. Returns
/// kExitInterrupted where `watch` wanted it to stop, and it can be resumed; else kExitDone.
[[nodiscard]] int train(const TrainArguments& arguments, const TrainInputs& inputs,
                        const std::string& run_json, Backend& backend, JobWatch& watch);

}  // namespace athanor::cli
