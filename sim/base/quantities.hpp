// SPDX-License-Identifier: Apache-2.0
// Units of measure that every room shares. A bare number in this project is a count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace athanor {

using Bytes = std::int64_t;
using Seconds = double;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;
inline constexpr std::int64_t kMostSteps = 1'000'000'000'000;  ///< most that an input may name
inline constexpr double kGigabyte = 1e9;                       ///< unit of rates

/// Element type of parameters, activations and gradients. Optimizer state is always fp32.
enum class DataType { Float32, BFloat16 };

[[nodiscard]] constexpr Bytes size_of(DataType dtype) noexcept {
  return dtype == DataType::Float32 ? 4 : 2;
}

[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

/// Reads a size such as "40GiB", "512M", "1.5GB" or "4096". K, M, G and T are binary like KiB to
/// TiB (2^10 to 2^40 bytes); kB to TB are decimal. Throws InputError that names `where`.
[[nodiscard]] Bytes parse_bytes(std::string_view text, const std::string& where);

/// Writes a size with three significant digits in binary units: "1.50 GiB", "312 KiB", "17 B".
[[nodiscard]] std::string format_bytes(Bytes bytes);

/// Writes a time with three significant digits: "1.23 s", "45.6 ms", "7.80 us".
[[nodiscard]] std::string format_seconds(Seconds seconds);

}  // namespace athanor
