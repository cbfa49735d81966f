// SPDX-License-Identifier: Apache-2.0
// The split master: an fp32 parameter in two halves of 16 bits. The upper half is the parameter in
// bf16, as kernels take it; the lower half is what rounding left out. Together they are the fp32
// value, so that a bf16 parameter with its master takes 4 bytes instead of 6.
#pragma once

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/device_function.hpp"

#include <cstdint>
#include <span>

namespace athanor {

/// Halves of one fp32 number: its bits are `parameter` * 2^16 + `rest`, modulo 2^32.
struct SplitMaster {
  BFloat16Bits parameter = 0;
  std::int16_t rest = 0;
};

/// Splits a number. The parameter is the nearest bf16; a tie goes away from zero, where PyTorch
/// goes to even: the rest then fits 16 bits whatever the number is. A NaN stays one, without its
/// payload.
ATHANOR_HOST_DEVICE SplitMaster split_master(float master) {
  constexpr std::uint32_t kHalf = 0x8000U, kMagnitude = 0x7FFFFFFFU, kInfinity = 0x7F800000U;
  constexpr std::uint32_t kQuietNan = 0x7FC0U;
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &master, sizeof(bits));
  const bool is_nan = (bits & kMagnitude) > kInfinity;
  const std::uint32_t parameter = is_nan ? kQuietNan : (bits + kHalf) >> 16U;
  const std::uint32_t rest = is_nan ? 0U : bits & 0xFFFFU;
  return {static_cast<BFloat16Bits>(parameter), static_cast<std::int16_t>(rest)};
}

/// Returns the number whose halves are `parameter` and `rest`.
ATHANOR_HOST_DEVICE float join_master(BFloat16Bits parameter, std::int16_t rest) {
  const std::uint32_t bits =
      (static_cast<std::uint32_t>(parameter) << 16U) + static_cast<std::uint32_t>(rest);
  float master = 0;
  __builtin_memcpy(&master, &bits, sizeof(master));
  return master;
}

/// Splits, joins or rounds arrays of one length, with `threads` threads.
void split_masters(std::span<const float> from, std::span<BFloat16Bits> parameters,
                   std::span<std::int16_t> rests, int threads);
void join_masters(std::span<const BFloat16Bits> parameters, std::span<const std::int16_t> rests,
                  std::span<float> to, int threads);
void round_to_parameters(std::span<const float> from, std::span<BFloat16Bits> parameters,
                         int threads);

}  // namespace athanor
