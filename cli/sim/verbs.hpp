// SPDX-License-Identifier: Apache-2.0
// Verbs of athanor-sim. Each function adds its subcommand, which sets `action` to what it runs.
#pragma once

#include "cli/common/command_line.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"

#include <string>

namespace athanor::cli {

void add_simulate(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);  // in cli/report
void add_import(CLI::App& app, Action& action);

/// Files with settings of other systems, of which at most one is given.
struct SettingsFiles {
  std::string deepspeed, accelerate, torchtitan;
  bool recompute = false;  ///< --recompute: the training script recomputes, which no file says
  [[nodiscard]] bool any() const {
    return !deepspeed.empty() || !accelerate.empty() || !torchtitan.empty();
  }
};

/// Predicts settings and what tune would change, and prints both. Returns the exit code. Throws
/// InfeasibleError where they do not fit. In cli/settings.
[[nodiscard]] int simulate_settings(const SettingsFiles& files, const Inputs& given,
                                    const ReportOptions& options, bool json);

}  // namespace athanor::cli
