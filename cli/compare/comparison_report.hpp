// SPDX-License-Identifier: Apache-2.0
// Says a comparison as text and as JSON.
#pragma once

#include "cli/compare/comparison.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

[[nodiscard]] nlohmann::ordered_json comparison_json(const Comparison& comparison);
[[nodiscard]] std::string comparison_text(const Comparison& comparison);

}  // namespace athanor::cli
