// SPDX-License-Identifier: Apache-2.0
// Makes the folders of a run ready, and removes what killed processes have left of it.
#pragma once

#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/backend/collectives.hpp"

#include <functional>
#include <string>

namespace athanor::cli {

/// Makes the run folder ready, on rank 0, and returns the run's identity. `report` gets lines for
/// the user.
[[nodiscard]] std::string prepare_run(const TrainArguments& arguments, const TrainInputs& inputs,
                                      const std::string& run_json,
                                      const std::function<void(const std::string&)>& report);

/// Returns rank 0's text, of at most 63 characters, on every rank.
[[nodiscard]] std::string of_first_rank(const std::string& text, Collectives& ranks);

/// Returns the line for a run that `signal` has interrupted (0: one to another rank) after `step`
/// steps, and whose checkpoint is `saved`.
[[nodiscard]] std::string interrupted_line(int signal, std::int64_t step, const std::string& saved,
                                           const std::string& out);

/// Frees the memory that a finished run has left because it was killed before its end.
void free_left_snapshot(const RunStart& start);

/// Returns the text for a run whose steps are all done.
[[nodiscard]] std::string nothing_left(const TrainArguments& arguments, const TrainInputs& inputs);

}  // namespace athanor::cli
