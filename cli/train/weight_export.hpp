// SPDX-License-Identifier: Apache-2.0
// The weights of a run as a Hugging Face folder.
#pragma once

#include "cli/common/progress_line.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/train/trainer.hpp"

#include <functional>
#include <string>

namespace athanor::cli {

/// Exports the weights of `run`, or makes sure that its export that is there already holds the
/// same. Every rank calls it and goes through all units, so that none waits for one that has
/// failed. All ranks call `is_stopping` together. Returns why it failed; empty: it did not.
[[nodiscard]] std::string export_weights(Trainer& trainer, const TrainArguments& arguments,
                                         const TrainInputs& inputs, const std::string& run,
                                         int rank, const std::function<bool()>& is_stopping,
                                         ProgressLine& progress);

}  // namespace athanor::cli
