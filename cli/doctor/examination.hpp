// SPDX-License-Identifier: Apache-2.0
// The whole examination of a machine, and how it is printed.
#pragma once

#include "cli/doctor/finding.hpp"
#include "cli/doctor/machine.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace athanor::cli {

/// Makes every check.
[[nodiscard]] Findings examine(const Machine& machine);

/// Whether nothing blocks training or tuning.
[[nodiscard]] bool works(const Findings& findings);

/// Returns one line for each finding, and below it what a missing thing costs and the way out.
[[nodiscard]] std::string as_text(const Findings& findings);

/// Returns the same with the system, for reports of bugs.
[[nodiscard]] nlohmann::json as_json(const Machine& machine, const Findings& findings);

}  // namespace athanor::cli
