// SPDX-License-Identifier: Apache-2.0
// Bits that look random and follow from a number, alike on every platform.
#pragma once

#include <cstdint>

namespace athanor {

/// Spreads the bits of `x` over all 64: the finalizer of SplitMix64 (Steele et al. 2014). Different
/// numbers have different results.
[[nodiscard]] constexpr std::uint64_t split_mix_finalizer(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace athanor
