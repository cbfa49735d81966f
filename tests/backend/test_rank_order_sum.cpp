// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/rank_order_sum.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace athanor {
namespace {

TEST_CASE("parts are added from left to right") {
  // In fp32 (1e8 + 1) - 1e8 = 0, but (1e8 - 1e8) + 1 = 1.
  const std::vector<float> large(5000, 1e8F);
  const std::vector<float> one(5000, 1.0F);
  const std::vector<float> negative(5000, -1e8F);
  std::vector<float> sum(5000);
  const std::array<const void*, 3> lost{large.data(), one.data(), negative.data()};
  rank_order_sum(sum.data(), lost, 5000, DataType::Float32);
  CHECK(sum == std::vector<float>(5000, 0.0F));
  const std::array<const void*, 3> kept{large.data(), negative.data(), one.data()};
  rank_order_sum(sum.data(), kept, 5000, DataType::Float32);
  CHECK(sum == one);
}

TEST_CASE("bf16 is summed in fp32 and rounded once") {
  // 1 + 2^-8 + 2^-8: each addition alone would round back to 1 in bf16.
  const std::vector<std::uint16_t> one(3000, round_to_bf16(1.0F));
  const std::vector<std::uint16_t> small(3000, round_to_bf16(1.0F / 256));
  std::vector<std::uint16_t> sum(3000);
  const std::array<const void*, 3> parts{one.data(), small.data(), small.data()};
  rank_order_sum(sum.data(), parts, 3000, DataType::BFloat16);
  CHECK(sum == std::vector<std::uint16_t>(3000, round_to_bf16(1.0F + 1.0F / 128)));
}

TEST_CASE("the sum may replace one of its parts") {
  std::vector<float> first(2500, 1.0F);
  const std::vector<float> second(2500, 2.0F);
  const std::array<const void*, 2> parts{first.data(), second.data()};
  rank_order_sum(first.data(), parts, 2500, DataType::Float32);
  CHECK(first == std::vector<float>(2500, 3.0F));
}

}  // namespace
}  // namespace athanor
