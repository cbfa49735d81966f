// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/normal_values.hpp"

#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/target_clones.hpp"
#include "sim/base/split_mix.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

namespace athanor {
namespace {

/// The sequence is drawn in blocks: pair j of a block gives its numbers j and kPairsInBlock + j.
constexpr std::int64_t kPairsInBlock = 256;
constexpr std::int64_t kNumbersInBlock = 2 * kPairsInBlock;
using NormalBlock = std::array<float, kNumbersInBlock>;

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;  ///< 2^64 / golden ratio: SplitMix64's step

/// Computes the natural logarithm of `x` in (0, 1), to 1e-9 of its value: the mantissa's by the
/// series of the area tangent, which converges fast between 1 / sqrt(2) and sqrt(2).
inline double logarithm(double x) {
  constexpr std::uint64_t kHalfRoot = 0x3fe6a09e667f3bcdU;  // 1 / sqrt(2)
  constexpr int kMantissaBits = 52;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t exponent = static_cast<std::int64_t>(bits - kHalfRoot) >> kMantissaBits;
  const auto shift = static_cast<std::uint64_t>(exponent) << static_cast<unsigned>(kMantissaBits);
  const double mantissa = std::bit_cast<double>(bits - shift);
  const double s = (mantissa - 1) / (mantissa + 1);
  const double t = s * s;
  const double series =
      1 + t * (1.0 / 3 + t * (1.0 / 5 + t * (1.0 / 7 + t * (1.0 / 9 + t * (1.0 / 11)))));
  // Small integers become doubles by their bits: vector units before AVX-512 have no conversion.
  constexpr double kShifter = 0x1.8p52;
  const double whole = std::bit_cast<double>(std::bit_cast<std::uint64_t>(kShifter) +
                                             static_cast<std::uint64_t>(exponent)) -
                       kShifter;
  return whole * std::numbers::ln2 + 2 * s * series;
}

/// Computes cosine and sine for |angle| <= pi / 4, to 1e-10, by their Taylor series.
inline double cosine(double angle) {
  const double t = angle * angle;
  return 1 + t * (-1.0 / 2 + t * (1.0 / 24 + t * (-1.0 / 720 + t * (1.0 / 40320 - t / 3628800))));
}
inline double sine(double angle) {
  const double t = angle * angle;
  return angle * (1 + t * (-1.0 / 6 + t * (1.0 / 120 +
                                           t * (-1.0 / 5040 + t * (1.0 / 362880 - t / 39916800)))));
}

/// Returns the double whose value is `x` of 32 bits.
inline double widened(std::uint64_t x) {
  constexpr double kTwoTo52 = 0x1p52;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(kTwoTo52) | x) - kTwoTo52;
}

/// Draws block `index` of the sequence: a pair is the point at a random angle whose squared
/// distance from 0 is exponential.
ATHANOR_VECTOR_CLONES void draw(std::uint64_t key, std::int64_t index, float deviation,
                                float* __restrict values) {
  constexpr std::uint64_t kLow = 0xffffffffU, kQuarter = 0x3fffffffU;
  const std::uint64_t count = static_cast<std::uint64_t>(index) * kPairsInBlock + 1;
  for (std::int64_t j = 0; j < kPairsInBlock; ++j) {
    const std::uint64_t bits =
        split_mix_finalizer(key + (count + static_cast<std::uint64_t>(j)) * kGolden);
    const double radius =
        double{deviation} * std::sqrt(-2 * logarithm((widened(bits >> 32U) + 0.5) * 0x1p-32));
    // The lower half is a turn: two bits of quarter turns, the rest within an eighth of zero.
    const std::uint64_t turn = bits & kLow;
    const double angle = (widened(turn & kQuarter) * 0x1p-30 - 0.5) * (std::numbers::pi / 2);
    const double x = radius * cosine(angle);
    const double y = radius * sine(angle);
    const bool odd = (turn & 0x40000000U) != 0;
    const bool back = (turn & 0x80000000U) != 0;
    const double sign = back ? -1 : 1;
    values[j] = static_cast<float>(sign * (odd ? -y : x));
    values[kPairsInBlock + j] = static_cast<float>(sign * (odd ? x : y));
  }
}

/// Writes numbers [first, first + out.size()).
void draw_range(std::uint64_t key, std::int64_t first, float deviation, std::span<float> out) {
  NormalBlock block;
  const std::int64_t end = first + std::ssize(out);
  for (std::int64_t at = first; at < end;) {
    const std::int64_t index = at / kNumbersInBlock;
    const std::int64_t next = std::min(end, (index + 1) * kNumbersInBlock);
    draw(key, index, deviation, block.data());
    std::copy(block.begin() + (at - index * kNumbersInBlock),
              block.begin() + (next - index * kNumbersInBlock), out.begin() + (at - first));
    at = next;
  }
}

}  // namespace

void normal_values(std::uint64_t key, std::int64_t first, float deviation, std::span<float> out,
                   int threads) {
  parallel_blocks(std::ssize(out), threads, [&](std::int64_t begin, std::int64_t end) {
    draw_range(key, first + begin, deviation,
               out.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
}

}  // namespace athanor
