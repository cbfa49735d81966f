// SPDX-License-Identifier: Apache-2.0
// The verbs of athanor-sim. Each adds its subcommand, and leaves in `action` what to run.
#pragma once

#include "cli/common/command_line.hpp"

namespace athanor::cli {

void add_simulate(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);

}  // namespace athanor::cli
