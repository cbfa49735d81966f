// SPDX-License-Identifier: Apache-2.0
#include "sim/base/quantities.hpp"

#include "sim/base/errors.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace athanor {
namespace {

constexpr double kMaxBytes = 9007199254740992.0;  // 2^53: every byte count is an exact double

constexpr std::array<std::pair<std::string_view, double>, 15> kByteUnits{{
    {"", 1.0},
    {"B", 1.0},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 0x1p10},
    {"MiB", 0x1p20},
    {"GiB", 0x1p30},
    {"TiB", 0x1p40},
    {"K", 0x1p10},
    {"M", 0x1p20},
    {"G", 0x1p30},
    {"T", 0x1p40},
}};

/// Writes three significant digits, and all digits before the point.
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

[[noreturn]] void reject_bytes(std::string_view text, const std::string& where,
                               std::string_view problem) {
  throw InputError(where, fmt::format("'{}' {}", text, problem),
                   "Write a size like 40GiB, 512M, 1.5GB or 4096 (bytes).");
}

/// Bytes in one `unit`; 0 for an unknown unit.
double unit_factor(std::string_view unit) {
  for (const auto& [name, factor] : kByteUnits) {
    if (name == unit) {
      return factor;
    }
  }
  return 0;
}

}  // namespace

Bytes parse_bytes(std::string_view text, const std::string& where) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, status] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(),
                                             number, std::chars_format::fixed);
  if (status != std::errc{} || !std::isfinite(number)) {
    reject_bytes(text, where, "is not a size");
  }
  const auto digits = static_cast<std::size_t>(end - trimmed.data());
  const double factor = unit_factor(trim(trimmed.substr(digits)));
  if (factor == 0) {
    reject_bytes(text, where, "has an unknown unit");
  }
  const double bytes = std::round(number * factor);
  if (std::signbit(number) || bytes > kMaxBytes) {
    reject_bytes(text, where, "is out of range (0 to 8192TiB)");
  }
  return static_cast<Bytes>(bytes);
}

std::string format_bytes(Bytes bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  const double magnitude = std::abs(static_cast<double>(bytes));
  if (magnitude < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = magnitude / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{}{} {}", bytes < 0 ? "-" : "", three_digits(value), kUnits[unit]);
}

std::string format_seconds(Seconds seconds) {
  constexpr std::array kUnits{"s", "ms", "us", "ns"};
  if (!std::isfinite(seconds)) {
    return fmt::format("{} s", seconds);
  }
  double value = std::abs(seconds);
  std::size_t unit = 0;
  while (value != 0 && value < 0.9995 && unit + 1 < kUnits.size()) {
    value *= 1000;
    ++unit;
  }
  return fmt::format("{}{} {}", seconds < 0 ? "-" : "", three_digits(value), kUnits[unit]);
}

}  // namespace athanor
