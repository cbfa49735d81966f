// SPDX-License-Identifier: Apache-2.0
// Prints a lowered program for people and scripts.
#pragma once

#include "sim/model/program.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

/// Returns {"world_size", "operations": [{"name", "lane", "bytes", "elements", "waits", ..}],
/// "buffers"}. Waits are indices into operations; those of the step before are in previous_waits.
[[nodiscard]] nlohmann::ordered_json program_json(const Program& program);

/// Returns one line per operation in program order: index, lane, name, size, waits.
[[nodiscard]] std::string program_text(const Program& program);

}  // namespace athanor::cli
