// SPDX-License-Identifier: Apache-2.0
// The verb by which a run in progress learns how long its steps will take.
#pragma once

#include "cli/common/command_line.hpp"

namespace athanor::cli {

/// Adds `repredict RUN`.
void add_repredict(CLI::App& app, Action& action);

}  // namespace athanor::cli
