// SPDX-License-Identifier: Apache-2.0
// Patterns that a plan can name. A new one is a class of its own and a row of the table.
#pragma once

#include "sim/model/plan.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Returns the pattern of that name; null for an unknown one.
[[nodiscard]] const UnitPattern* find_pattern(std::string_view name) noexcept;

/// Returns all patterns, in the order of the table; weights travel is the first.
[[nodiscard]] std::vector<const UnitPattern*> all_patterns();

/// Says how many units of a plan have which other pattern than weights travel; empty for none:
/// "tokens travel in 2 units, tensors are split in 4 units".
[[nodiscard]] std::string travel_text(const Plan& plan);

/// Names of all patterns, for messages: "weights, tokens, tensors".
[[nodiscard]] std::string listed_patterns();

}  // namespace athanor
