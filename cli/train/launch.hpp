// SPDX-License-Identifier: Apache-2.0
// Starts the ranks that --gpus asks for, and starts them again from where they were killed.
#pragma once

#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"

#include <span>
#include <string>
#include <vector>

namespace athanor::cli {

/// Runs the ranks and returns the exit code. Where processes are killed, or hang, and
/// --max-restarts allows it, the job is started again from its memory or its newest checkpoint.
[[nodiscard]] int launch(const TrainArguments& arguments, const TrainInputs& inputs,
                         std::span<char* const> argv);

/// Returns `words` so that they resume the run in `out`, whatever they resumed before.
[[nodiscard]] std::vector<std::string> resuming(std::span<char* const> words,
                                                const std::string& out);

}  // namespace athanor::cli
