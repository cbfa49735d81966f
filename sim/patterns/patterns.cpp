// SPDX-License-Identifier: Apache-2.0
#include "sim/patterns/patterns.hpp"

#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace athanor {
namespace {

constexpr std::array kPatterns{&weights_travel, &tokens_travel, &tensors_split};

}  // namespace

const UnitPattern* find_pattern(std::string_view name) noexcept {
  const auto* const found = std::ranges::find_if(
      kPatterns, [name](const auto& pattern) { return pattern().name() == name; });
  return found == kPatterns.end() ? nullptr : &(*found)();
}

std::vector<const UnitPattern*> all_patterns() {
  std::vector<const UnitPattern*> patterns;
  for (const auto& pattern : kPatterns) patterns.push_back(&pattern());
  return patterns;
}

std::string travel_text(const Plan& plan) {
  std::string text;
  for (const UnitPattern* const pattern : travelling_patterns(plan)) {
    const auto units = std::ranges::count(plan.units, pattern, &UnitPlan::pattern);
    text += fmt::format("{}{} in {} units", text.empty() ? "" : ", ", pattern->phrase(), units);
  }
  return text;
}

std::string listed_patterns() {
  std::string names;
  for (const auto& pattern : kPatterns) {
    names.append(names.empty() ? "" : ", ").append(pattern().name());
  }
  return names;
}

}  // namespace athanor
