// SPDX-License-Identifier: Apache-2.0
// Tests of AdamW whose moments are bf16, rounded stochastically: the probabilities of rounding, the
// update beside that of fp32 moments, and equal bits under every cut and number of threads.
#include "executor/cpu/adam.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "tests/backend/random_values.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace athanor {
namespace {

using Catch::Approx;
using test::narrowed;
using test::random_values;
using test::widened;

/// A split master with moments in bf16.
struct NarrowState {
  std::vector<BFloat16Bits> parameters;
  std::vector<std::int16_t> rests;
  std::vector<BFloat16Bits> first, second;
  explicit NarrowState(const std::vector<float>& master)
      : parameters(master.size()),
        rests(master.size()),
        first(narrowed(random_values(master.size(), 11, 1e-3F))),
        second(narrowed(random_values(master.size(), 12, 1e-6F))) {
    split_masters(master, parameters, rests, 1);
    for (BFloat16Bits& moment : second) moment &= 0x7FFF;  // no second moment is negative
  }
  [[nodiscard]] AdamStateView view(std::size_t offset = 0) {
    return {.parameters = parameters.data() + offset,
            .rests = rests.data() + offset,
            .first_moment_bf16 = first.data() + offset,
            .second_moment_bf16 = second.data() + offset};
  }
  bool operator==(const NarrowState&) const = default;
};

/// Returns how often a value is rounded away from zero, over all noise.
int times_up(float value) {
  const auto truncated = static_cast<BFloat16Bits>(bits_of(value) >> 16U);
  int up = 0;
  for (std::uint32_t noise = 0; noise <= 0xFFFF; ++noise) {
    const std::uint16_t rounded = round_stochastically(value, noise);
    REQUIRE((rounded == truncated || rounded == truncated + 1));
    up += rounded == truncated ? 0 : 1;
  }
  return up;
}

TEST_CASE("a moment is rounded up as often as bf16 lacks of it") {
  for (const float value : random_values(50, 3)) {
    CHECK(times_up(value) == static_cast<int>(bits_of(value) & 0xFFFFU));
  }
  CHECK(times_up(0.0F) == 0);
  CHECK(times_up(-1.5F) == 0);
  CHECK(times_up(std::bit_cast<float>(0x3F808000U)) == 0x8000);
}

TEST_CASE("stochastic rounding keeps infinity and NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::uint32_t noise : {0U, 1U, 0xFFFFU}) {
    CHECK(round_stochastically(infinity, noise) == 0x7F80);
    CHECK(round_stochastically(-infinity, noise) == 0xFF80);
    CHECK(std::isnan(widen_bf16(round_stochastically(std::bit_cast<float>(0x7F800001U), noise))));
    CHECK(std::isnan(widen_bf16(round_stochastically(std::bit_cast<float>(0xFFFFFFFFU), noise))));
  }
}

TEST_CASE("both halves of the noise are even, from step to step and from value to value") {
  constexpr int kCells = 64, kDraws = 64'000;
  std::vector<int> low(kCells), high(kCells);
  const std::vector<float> values = random_values(kDraws / 100, 4, 1e-2F);
  for (std::int64_t step = 1; step <= 100; ++step) {
    const std::uint32_t seed = adam_step({.step = step}).noise_seed;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Gradients of 0 are common, and a parameter may keep its value.
      const float gradient = i % 3 == 0 ? 0.0F : values[(i + 1) % values.size()];
      const std::uint32_t noise = rounding_noise(values[i], gradient, seed);
      ++low[(noise & 0xFFFFU) * kCells >> 16U];
      ++high[(noise >> 16U) * kCells >> 16U];
    }
  }
  for (const std::vector<int>& counts : {low, high}) {
    double chi_square = 0;
    constexpr double kExpected = double{kDraws} / kCells;
    for (const int count : counts) chi_square += std::pow(count - kExpected, 2) / kExpected;
    CHECK(chi_square < 113.5);  // 63 degrees of freedom, one in 10,000
  }
}

TEST_CASE("an update reads bf16 moments as their values, and rounds them only afterwards") {
  constexpr std::size_t kCount = 10'007;
  const std::vector<float> master = random_values(kCount, 1);
  const std::vector<float> gradient = random_values(kCount, 2, 1e-3F);
  const AdamCoefficients c{.weight_decay = 0.01F, .step = 40};
  NarrowState state(master);
  std::vector<float> whole = master, first = widened(state.first), second = widened(state.second);
  adamw({.master = whole.data(), .first_moment = first.data(), .second_moment = second.data()},
        std::span<const float>(gradient), c, 1);
  adamw(state.view(), std::span<const float>(gradient), c, 2);
  for (std::size_t i = 0; i < kCount; ++i) {
    REQUIRE(join_master(state.parameters[i], state.rests[i]) == whole[i]);
    const auto is_neighbour = [](BFloat16Bits rounded, float value) {
      const auto truncated = static_cast<BFloat16Bits>(bits_of(value) >> 16U);
      return rounded == truncated || rounded == truncated + 1;
    };
    REQUIRE(is_neighbour(state.first[i], first[i]));
    REQUIRE(is_neighbour(state.second[i], second[i]));
  }
}

TEST_CASE("second moments in bf16 follow changes that are smaller than a step of bf16") {
  constexpr std::size_t kCount = 2'000;
  constexpr float kGradient = 1e-2F;
  const std::vector<float> gradient(kCount, kGradient);
  AdamCoefficients c{.learning_rate = 1e-3F};
  NarrowState state(random_values(kCount, 1));
  std::ranges::fill(state.second, round_to_bf16(kGradient * kGradient * 0.5F));
  double exact = kGradient * kGradient * 0.5;
  BFloat16Bits nearest = state.second[0];
  for (c.step = 1; c.step <= 500; ++c.step) {
    adamw(state.view(), std::span<const float>(gradient), c, 1);
    const double added = (1 - double{c.beta2}) * double{kGradient} * kGradient;
    exact = double{c.beta2} * exact + added;
    nearest = round_to_bf16(c.beta2 * widen_bf16(nearest) + static_cast<float>(added));
  }
  double mean = 0;
  for (const BFloat16Bits moment : state.second) mean += widen_bf16(moment) / double{kCount};
  CHECK(mean == Approx(exact).epsilon(0.005));
  CHECK(widen_bf16(nearest) < 0.9 * exact);  // rounding to nearest stays behind
}

TEST_CASE("bf16 moments have the same bits however an update is cut, placed and threaded") {
  constexpr std::size_t kCount = 40'003;
  const std::vector<BFloat16Bits> narrow = narrowed(random_values(kCount, 2));
  const std::vector<float> wide = widened(narrow);
  const AdamCoefficients c{.weight_decay = 0.01F, .step = 7};
  const NarrowState old(random_values(kCount, 1));
  NarrowState expected = old;
  adamw(expected.view(), std::span<const float>(wide), c, 1);

  const auto check = [&](auto gradient, int threads) {
    NarrowState in_place = old;
    adamw(in_place.view(), gradient, c, threads);
    CHECK(in_place == expected);
    NarrowState before = old, after = old;
    adamw_out_of_place(before.view(), after.view(), gradient, c, threads);
    CHECK(after == expected);
    CHECK(before == old);
    NarrowState cut = old;
    std::mt19937 random(3);
    for (std::size_t offset = 0; offset < kCount;) {
      const std::size_t count = std::min<std::size_t>(kCount - offset, 1 + random() % 5000);
      adamw(cut.view(offset), gradient.subspan(offset, count), c, threads);
      offset += count;
    }
    CHECK(cut == expected);
  };
  const int threads = GENERATE(1, 3);
  check(std::span<const float>(wide), threads);
  check(std::span<const BFloat16Bits>(narrow), threads);

  std::vector<float> master(kCount), moved(kCount);
  join_masters(old.parameters, old.rests, master, 1);
  NarrowState whole = old, other = old;
  const AdamStateView from{.master = master.data(),
                           .first_moment_bf16 = whole.first.data(),
                           .second_moment_bf16 = whole.second.data()};
  adamw_out_of_place(from,
                     {.master = moved.data(),
                      .first_moment_bf16 = other.first.data(),
                      .second_moment_bf16 = other.second.data()},
                     std::span<const float>(wide), c, threads);
  CHECK(whole.first == old.first);
  adamw(from, std::span<const float>(wide), c, threads);
  CHECK(moved == master);
  for (const NarrowState& updated : {whole, other}) {
    CHECK(updated.first == expected.first);
    CHECK(updated.second == expected.second);
  }
}

}  // namespace
}  // namespace athanor
