// SPDX-License-Identifier: Apache-2.0
#include "sim/base/durations.hpp"

#include "sim/base/errors.hpp"

#include <fmt/core.h>

#include <charconv>
#include <system_error>

namespace athanor {

Seconds seconds_of_unit(std::string_view unit) noexcept {
  if (unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  if (unit == "h") return 3600;
  return 0;
}

Seconds parse_duration(std::string_view text, const std::string& where) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const Seconds seconds = number * seconds_of_unit(unit);
  const bool in_range = seconds > 0 && seconds <= kMostSeconds;  // false for NaN
  if (status == std::errc{} && in_range) return seconds;
  throw InputError(where, fmt::format("'{}' is no time", text),
                   "Write a time up to a year like 90s, 10m or 3h.");
}

}  // namespace athanor
