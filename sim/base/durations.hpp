// SPDX-License-Identifier: Apache-2.0
// Times as users write them: 600s, 10m, 1h.
#pragma once

#include "sim/base/quantities.hpp"

#include <string>
#include <string_view>

namespace athanor {

inline constexpr Seconds kMostSeconds = 366.0 * 24 * 3600;  ///< longest time that an input may name

/// Seconds of one s, m, min or h; 0 for an unknown unit.
[[nodiscard]] Seconds seconds_of_unit(std::string_view unit) noexcept;

/// Reads a time above 0 such as "90s", "1.5m" or "3h". Throws InputError that names `where`.
[[nodiscard]] Seconds parse_duration(std::string_view text, const std::string& where);

}  // namespace athanor
