// SPDX-License-Identifier: Apache-2.0
// Verbs of athanor-sim. Each function adds its subcommand, which sets `action` to what it runs.
#pragma once

#include "cli/common/command_line.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace athanor::cli {

void add_simulate(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);  // in cli/report
void add_import(CLI::App& app, Action& action);
void add_pool(CLI::App& app, Action& action);

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

/// Values of --failures and of the options beside it, as they were given.
struct FailureOptions {
  std::optional<std::string> failures;  ///< absent: nothing is said of failures
  std::optional<std::string> snapshot;  ///< absent: no snapshots in memory
  std::string checkpoint_every = "10m", restart = "6m";
  Bytes store = 2'500'000'000;  ///< bytes a second, for the whole job
  std::uint64_t seed = 1;
};

struct FailureAnswer {
  nlohmann::ordered_json json;
  std::string text;
};

/// Adds --failures and the options that it needs. In cli/failures, as all below.
void add_failures(CLI::App& verb, FailureOptions& options);
/// Throws InputError for a value that cannot be read, before anything is simulated.
void check_failures(const FailureOptions& options);
/// Simulates months of the reported plan under failures. Throws InputError where the options ask
/// for what its machines do not have.
[[nodiscard]] FailureAnswer answer_failures(const FailureOptions& options, const Report& report,
                                            const TuningProblem& problem);

}  // namespace athanor::cli
