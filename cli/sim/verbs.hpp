// SPDX-License-Identifier: Apache-2.0
// Verbs of athanor-sim. Each function adds its subcommand, which sets `action` to what it runs.
#pragma once

#include "cli/common/command_line.hpp"

namespace athanor::cli {

void add_simulate(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);  // in cli/report
void add_import(CLI::App& app, Action& action);

}  // namespace athanor::cli
