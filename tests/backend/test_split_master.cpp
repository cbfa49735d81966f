// SPDX-License-Identifier: Apache-2.0
// Tests of the split master on every fp32 number there is, and of its rounding against PyTorch's.
#include "executor/cpu/split_master.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace athanor {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20U;
constexpr int kThreads = 2;

/// Fills `values` with the numbers whose bits are `first`, `first` + 1, ..
void fill_patterns(std::vector<float>& values, std::uint32_t first) {
  std::vector<std::uint32_t> bits(values.size());
  std::iota(bits.begin(), bits.end(), first);
  std::memcpy(values.data(), bits.data(), bits.size() * sizeof(bits[0]));
}

/// Whether the numbers are the same bit for bit, or both NaN.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST_CASE("each of the 2^32 numbers is split and joined without loss") {
  std::vector<float> values(kBlock), joined(kBlock);
  std::vector<BFloat16Bits> parameters(kBlock);
  std::vector<std::int16_t> rests(kBlock);
  std::uint32_t first = 0;
  do {
    fill_patterns(values, first);
    split_masters(values, parameters, rests, kThreads);
    join_masters(parameters, rests, joined, kThreads);
    if (std::memcmp(joined.data(), values.data(), kBlock * sizeof(float)) != 0) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        if (same(joined[i], values[i]) &&
            std::isnan(values[i]) == std::isnan(widen_bf16(parameters[i]))) {
          continue;
        }
        FAIL("bits " << std::bit_cast<std::uint32_t>(values[i]));
      }
    }
    first += kBlock;
  } while (first != 0);
}

TEST_CASE("a parameter is the nearest bf16, and the one away from zero of two") {
  std::vector<float> values(kBlock);
  std::vector<BFloat16Bits> parameters(kBlock);
  int ties = 0;
  for (const std::uint32_t first : {0x00000000U, 0x3F7F0000U, 0x7F000000U, 0xBF000000U}) {
    fill_patterns(values, first);
    round_to_parameters(values, parameters, kThreads);
    for (std::size_t i = 0; i < kBlock; ++i) {
      const bool tie = (std::bit_cast<std::uint32_t>(values[i]) & 0xFFFFU) == 0x8000U;
      const BFloat16Bits even = round_to_bf16(values[i]);
      const auto away = static_cast<int>(std::bit_cast<std::uint32_t>(values[i]) >> 16U);
      ties += tie ? 1 : 0;
      const int expected = tie ? away + 1 : even;
      if (parameters[i] != expected) FAIL("bits " << std::bit_cast<std::uint32_t>(values[i]));
    }
  }
  CHECK(ties == 4 * 16);
}

TEST_CASE("splitting keeps infinity and NaN, and the largest number has a rest") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(split_master(1.0F).parameter == 0x3F80);
  CHECK(split_master(1.0F).rest == 0);
  CHECK(split_master(1.0F + 1.0F / 256).parameter == 0x3F81);  // a tie, where PyTorch has 0x3F80
  CHECK(split_master(1.0F + 1.0F / 256).rest == std::numeric_limits<std::int16_t>::min());
  CHECK(split_master(-kInfinity).parameter == 0xFF80);
  CHECK(split_master(std::numeric_limits<float>::max()).parameter == 0x7F80);
  CHECK(split_master(std::numeric_limits<float>::max()).rest == -1);
  // The NaN that a GPU makes would round up to -0.
  CHECK(std::isnan(widen_bf16(split_master(std::bit_cast<float>(0x7FFFFFFFU)).parameter)));
}

}  // namespace
}  // namespace athanor
