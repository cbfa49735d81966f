// SPDX-License-Identifier: Apache-2.0
// Patterns that a plan can name. A new one is a class of its own and a row of the table.
#pragma once

#include "sim/model/plan.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// Returns the pattern of that name; null for an unknown one.
[[nodiscard]] const UnitPattern* find_pattern(std::string_view name) noexcept;

/// Names of all patterns, for messages: "weights, tokens, tensors".
[[nodiscard]] std::string listed_patterns();

}  // namespace athanor
