// SPDX-License-Identifier: Apache-2.0
// The data of a run's page.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

/// Reads a run folder, simulates its program and returns what its page shows: "comparison", as
/// `compare --json` prints it, with what "series" adds from metrics.jsonl, "timelines", "memory",
/// "critical_path" and "sensitivity". Writes nothing. Throws InputError for a folder that compare
/// would refuse.
[[nodiscard]] nlohmann::ordered_json run_page(const std::string& run);

}  // namespace athanor::cli
