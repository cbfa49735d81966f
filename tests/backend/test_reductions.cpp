// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/reductions.hpp"
#include "executor/cpu/split_master.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace athanor {
namespace {

/// Magnitudes from 2^-40 to 2^40, so that naive sums lose digits.
std::vector<float> wild_values(std::size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-40, 40);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(normal(random), exponent(random));
  }
  return values;
}

TEST_CASE("a sum of squares is exact where double would lose digits") {
  // (2^40)^2 + 2^20 * 1^2 - in double each 1 would vanish beside 2^80.
  std::vector<float> values((1U << 20U) + 1, 1.0F);
  values[0] = std::ldexp(1.0F, 40);
  const ExactSum sum = square_sum(std::span<const float>(values));
  CHECK((sum.high - std::ldexp(1.0, 80)) + sum.low == std::ldexp(1.0, 20));
}

TEST_CASE("a sum of squares does not depend on the cut") {
  const std::vector<float> values = wild_values(50'021);
  const ExactSum whole = square_sum(std::span<const float>(values));
  std::mt19937 random(6);
  for (int trial = 0; trial < 20; ++trial) {
    ExactSum pieces;
    for (std::size_t offset = 0; offset < values.size();) {
      const std::size_t count = std::min<std::size_t>(values.size() - offset, 1 + random() % 3000);
      pieces.add(square_sum(std::span(values).subspan(offset, count)));
      offset += count;
    }
    REQUIRE(std::abs((pieces.high - whole.high) + (pieces.low - whole.low)) <=
            std::ldexp(whole.high, -95));
    REQUIRE(static_cast<float>(std::sqrt(pieces.high + pieces.low)) ==
            static_cast<float>(std::sqrt(whole.high + whole.low)));
  }
}

TEST_CASE("several threads sum squares as exactly as one, and repeatably") {
  const std::vector<float> values = wild_values(200'003);
  const ExactSum one = square_sum(std::span<const float>(values));
  const ExactSum several = square_sum(std::span<const float>(values), 4);
  CHECK(std::abs((several.high - one.high) + (several.low - one.low)) <= std::ldexp(one.high, -95));
  const ExactSum again = square_sum(std::span<const float>(values), 4);
  CHECK(again.high == several.high);
  CHECK(again.low == several.low);
}

TEST_CASE("bf16 squares equal those of the widened values") {
  const std::vector<float> values = wild_values(1025);
  std::vector<BFloat16Bits> narrow(values.size());
  round_to_parameters(values, narrow, 1);
  std::vector<float> wide(values.size());
  std::transform(narrow.begin(), narrow.end(), wide.begin(), widen_bf16);
  const ExactSum from_narrow = square_sum(std::span<const BFloat16Bits>(narrow));
  const ExactSum from_wide = square_sum(std::span<const float>(wide));
  CHECK(from_narrow.high == from_wide.high);
  CHECK(from_narrow.low == from_wide.low);
}

TEST_CASE("sums of squares accept empty and non-finite input") {
  CHECK(square_sum(std::span<const float>()).high == 0.0);
  const std::vector<float> values{1.0F, std::numeric_limits<float>::infinity(), 2.0F};
  const ExactSum sum = square_sum(std::span<const float>(values));
  CHECK_FALSE(std::isfinite(sum.high + sum.low));
}

TEST_CASE("accumulation adds element by element") {
  const std::vector<float> addend = wild_values(777);
  std::vector<BFloat16Bits> narrow(addend.size());
  round_to_parameters(addend, narrow, 1);
  std::vector<float> sum(addend.size(), 1.0F);
  accumulate(sum, std::span<const float>(addend));
  accumulate(sum, std::span<const BFloat16Bits>(narrow));
  for (std::size_t i = 0; i < addend.size(); ++i) {
    REQUIRE(sum[i] == (1.0F + addend[i]) + widen_bf16(narrow[i]));
  }
}

}  // namespace
}  // namespace athanor
