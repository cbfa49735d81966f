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

/// Element type of parameters, activations and gradients.
enum class DataType { Float32, BFloat16 };

[[nodiscard]] constexpr Bytes size_of(DataType dtype) noexcept {
  return dtype == DataType::Float32 ? 4 : 2;
}

/// Type of Adam's two moments. Int8 has a scale for every kMomentBlock of them, too.
enum class AdamState { Float32, BFloat16, Int8 };

/// Consecutive elements of a unit's flat storage whose moments in int8 share a scale.
inline constexpr std::int64_t kMomentBlock = 256;
inline constexpr Bytes kMomentScaleBytes = 8;  ///< an fp32 for each moment

/// Returns the bytes of both moments of `elements` elements, which are whole blocks.
[[nodiscard]] constexpr Bytes moment_bytes(AdamState state, std::int64_t elements) noexcept {
  switch (state) {
    case AdamState::Float32:
      return elements * 8;
    case AdamState::BFloat16:
      return elements * 4;
    case AdamState::Int8:
      break;
  }
  return elements * 2 + elements / kMomentBlock * kMomentScaleBytes;
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
