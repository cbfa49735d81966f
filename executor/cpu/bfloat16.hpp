// SPDX-License-Identifier: Apache-2.0
// Conversions between fp32 and bf16, as branch-free code that the compiler vectorizes.
#pragma once

#include <bit>
#include <cstdint>

namespace athanor {

/// A bf16 as stored: the upper half of an fp32, rounded to nearest even.
using BFloat16Bits = std::uint16_t;

/// Returns the fp32 of the same value.
[[nodiscard]] inline float widen_bf16(BFloat16Bits bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// The fp32 of an element of either type, for code that is written once for both.
[[nodiscard]] inline float to_float(float value) noexcept { return value; }
[[nodiscard]] inline float to_float(BFloat16Bits bits) noexcept { return widen_bf16(bits); }

/// Rounds to nearest even; NaN stays NaN (quiet).
[[nodiscard]] inline BFloat16Bits round_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  const std::uint32_t quiet = (bits >> 16U) | 0x40U;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<BFloat16Bits>(is_nan ? quiet : rounded);
}

}  // namespace athanor
