// SPDX-License-Identifier: Apache-2.0
// The verb by which a run in progress learns of a better plan.
#pragma once

#include "cli/common/command_line.hpp"

namespace athanor::cli {

/// Adds `retune RUN`.
void add_retune(CLI::App& app, Action& action);

}  // namespace athanor::cli
