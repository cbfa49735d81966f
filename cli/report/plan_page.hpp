// SPDX-License-Identifier: Apache-2.0
// The data of a plan's page.
#pragma once

#include "cli/sim/inputs.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

/// Simulates a plan on its profile and platform, or on those that are given. Returns "result",
/// as `simulate --sensitivity --json` prints it, "memory", as `show memory --json` prints it, and
/// "timelines" and "levels" of the prediction. Throws InputError for a file that is missing or
/// broken.
[[nodiscard]] nlohmann::ordered_json plan_page(const std::string& path, const Inputs& given);

}  // namespace athanor::cli
