// SPDX-License-Identifier: Apache-2.0
// One process's part of a training run, from memory to the last file.
#pragma once

#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/backend/backend.hpp"

#include <string>

namespace athanor::cli {

/// Trains, checkpoints, measures and exports. `run_json`: text of run.json. Called by every rank.
void train(const TrainArguments& arguments, const TrainInputs& inputs, const std::string& run_json,
           Backend& backend);

}  // namespace athanor::cli
