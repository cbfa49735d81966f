// SPDX-License-Identifier: Apache-2.0
// Tests of AdamW against its formula in double, and of equal bits under every cut and number of
// threads.
#include "executor/backend/host_device.hpp"
#include "executor/cpu/adam.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "tests/backend/random_values.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace athanor {
namespace {

using test::narrowed;
using test::random_values;
using test::widened;
/// State with a whole master.
struct State {
  std::vector<float> master, first, second;
  explicit State(std::size_t count)
      : master(random_values(count, 1)), first(count), second(count) {}
  [[nodiscard]] AdamStateView view(std::size_t offset = 0) {
    return {.master = master.data() + offset,
            .first_moment = first.data() + offset,
            .second_moment = second.data() + offset};
  }
  bool operator==(const State&) const = default;
};

/// State with a split master, and otherwise that of a State.
struct SplitState {
  std::vector<BFloat16Bits> parameters;
  std::vector<std::int16_t> rests;
  std::vector<float> first, second;
  explicit SplitState(const State& whole)
      : parameters(whole.master.size()),
        rests(whole.master.size()),
        first(whole.first),
        second(whole.second) {
    split_masters(whole.master, parameters, rests, 1);
  }
  [[nodiscard]] AdamStateView view(std::size_t offset = 0) {
    return {.parameters = parameters.data() + offset,
            .rests = rests.data() + offset,
            .first_moment = first.data() + offset,
            .second_moment = second.data() + offset};
  }
  bool operator==(const SplitState&) const = default;
};

/// One element of Loshchilov & Hutter's Algorithm 2 in double.
struct Reference {
  double p, m = 0, v = 0;
  void step(double g, const AdamCoefficients& c) {
    g *= c.gradient_scale;
    m = double{c.beta1} * m + (1 - double{c.beta1}) * g;
    v = double{c.beta2} * v + (1 - double{c.beta2}) * g * g;
    const double m_hat = m / (1 - std::pow(double{c.beta1}, double(c.step)));
    const double v_hat = v / (1 - std::pow(double{c.beta2}, double(c.step)));
    p -= double{c.learning_rate} *
         (m_hat / (std::sqrt(v_hat) + double{c.epsilon}) + double{c.weight_decay} * p);
  }
};

TEST_CASE("twenty AdamW steps agree with the formula in double") {
  constexpr std::size_t kCount = 1000;
  AdamCoefficients c{.learning_rate = 1e-2F, .weight_decay = 0.1F, .gradient_scale = 0.5F};
  State state(kCount);
  std::vector<Reference> reference;
  for (const float p : state.master) {
    reference.push_back({.p = p});
  }
  for (c.step = 1; c.step <= 20; ++c.step) {
    const std::vector<float> gradient = random_values(kCount, unsigned(c.step) + 100);
    adamw(state.view(), std::span<const float>(gradient), c, 1);
    for (std::size_t i = 0; i < kCount; ++i) {
      reference[i].step(gradient[i], c);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    REQUIRE_THAT(state.master[i], Catch::Matchers::WithinAbs(reference[i].p, 2e-6));
    REQUIRE_THAT(state.second[i], Catch::Matchers::WithinRel(float(reference[i].v), 1e-5F));
  }
}

TEST_CASE("the first step without decay moves every parameter by the learning rate") {
  State state(3);
  const std::vector<float> before = state.master;
  const std::vector<float> gradient{5.0F, -0.01F, 1e4F};
  adamw(state.view(), std::span<const float>(gradient), {.learning_rate = 0.125F}, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    const float expected = before[i] - std::copysign(0.125F, gradient[i]);
    REQUIRE_THAT(state.master[i], Catch::Matchers::WithinAbs(expected, 1e-6));
  }
}

TEST_CASE("AdamW out of place gives the bits of AdamW in place and leaves the old state as it is") {
  constexpr std::size_t kCount = 40'003;
  const std::vector<float> gradient = random_values(kCount, 2);
  const std::vector<BFloat16Bits> narrow = narrowed(gradient);
  const AdamCoefficients c{.weight_decay = 0.01F, .step = 2};
  State whole(kCount);
  adamw(whole.view(), std::span<const float>(gradient), {.weight_decay = 0.01F}, 1);
  const SplitState old(whole);
  const auto check = [&](auto values, int threads) {
    SplitState expected = old;
    adamw(expected.view(), values, c, 1);
    SplitState before = old;
    SplitState after{State(kCount)};
    adamw_out_of_place(before.view(), after.view(), values, c, threads);
    CHECK(after == expected);
    CHECK(before == old);
    // Start at an odd element: lines go past the caches only where they are aligned.
    SplitState part{State(kCount)};
    const std::size_t offset = 5;
    adamw_out_of_place(before.view(offset), part.view(offset), values.subspan(offset, 3000), c,
                       threads);
    CHECK(std::equal(part.parameters.begin() + 5, part.parameters.begin() + 3005,
                     expected.parameters.begin() + 5));
    CHECK(
        std::equal(part.rests.begin() + 5, part.rests.begin() + 3005, expected.rests.begin() + 5));
  };
  const int threads = GENERATE(1, 3);
  check(std::span<const float>(gradient), threads);
  check(std::span<const BFloat16Bits>(narrow), threads);
}

TEST_CASE("AdamW updates parameters in place, keeps the old ones and can be done again from them") {
  constexpr std::size_t kCount = 40'003;
  const std::vector<BFloat16Bits> gradient = narrowed(random_values(kCount, 2));
  const std::span<const BFloat16Bits> values(gradient);
  const AdamCoefficients c{.weight_decay = 0.01F};
  const AdamCoefficients clipped{.weight_decay = 0.01F, .gradient_scale = 0.3F};
  const SplitState old{State(kCount)};
  SplitState expected = old, expected_clipped = old;
  adamw(expected.view(), values, c, 1);
  adamw(expected_clipped.view(), values, clipped, 1);

  SplitState from = old, to{State(kCount)};
  std::vector<BFloat16Bits> old_parameters(kCount);
  AdamStateView updated = to.view();
  updated.parameters = from.parameters.data();
  adamw_out_of_place(from.view(), updated, values, c, 2, old_parameters.data());
  CHECK(from.parameters == expected.parameters);
  CHECK(to.rests == expected.rests);
  CHECK(to.first == expected.first);
  CHECK(to.second == expected.second);
  CHECK(old_parameters == old.parameters);
  CHECK(from.rests == old.rests);

  AdamStateView before = from.view();
  before.parameters = old_parameters.data();
  adamw_out_of_place(before, updated, values, clipped, 2);
  CHECK(from.parameters == expected_clipped.parameters);
  CHECK(to.rests == expected_clipped.rests);
}

TEST_CASE("AdamW writes a whole master beside the old one, with the bits of an update in place") {
  constexpr std::size_t kCount = 40'003;
  const std::vector<float> gradient = random_values(kCount, 2);
  const AdamCoefficients c{.weight_decay = 0.01F, .gradient_scale = 0.3F, .step = 7};
  State old(kCount);
  adamw(old.view(), random_values(kCount, 3), {}, 1);
  State expected = old;
  adamw(expected.view(), gradient, c, 1);
  for (const int threads : {1, 2}) {
    State from = old, to(kCount);
    std::ranges::fill(to.master, 0.0F);
    std::ranges::fill(to.first, 0.0F);
    std::ranges::fill(to.second, 0.0F);
    adamw_out_of_place(from.view(), to.view(), std::span<const float>(gradient), c, threads);
    CHECK(to.master == expected.master);
    CHECK(to.first == expected.first);
    CHECK(to.second == expected.second);
    CHECK(from.master == old.master);
    CHECK(from.first == old.first);
    CHECK(from.second == old.second);
  }
}

TEST_CASE("AdamW gives the same bits under every cut and number of threads") {
  constexpr std::size_t kCount = 100'003;
  const std::vector<float> gradient = random_values(kCount, 2);
  const AdamCoefficients c{.weight_decay = 0.01F, .step = 7};
  State whole(kCount);
  adamw(whole.view(), std::span<const float>(gradient), c, 1);

  SECTION("threads") {
    const int threads = GENERATE(2, 3, 5);
    State other(kCount);
    adamw(other.view(), std::span<const float>(gradient), c, threads);
    REQUIRE(other == whole);
  }
  SECTION("cuts, aligned or not") {
    State other(kCount);
    std::mt19937 random(3);
    for (std::size_t offset = 0; offset < kCount;) {
      const std::size_t count = std::min<std::size_t>(kCount - offset, 1 + random() % 5000);
      adamw(other.view(offset), std::span<const float>(gradient).subspan(offset, count), c, 1);
      offset += count;
    }
    REQUIRE(other == whole);
  }
}

TEST_CASE("decay acts in its segments, and elements between segments stay as they are") {
  constexpr std::size_t kCount = 1000;
  const std::vector<AdamSegment> segments{{0, 333, true}, {352, 640, false}, {700, 1000, true}};
  const std::vector<float> gradient = random_values(kCount, 2);
  const float gradient_scale = 0.5F;
  AdamCoefficients c{.learning_rate = 1e-2F, .weight_decay = 0.1F};
  State expected(kCount);
  State state(kCount);
  HostDevice().adam(Lane::Compute, {.from = state.view(),
                                    .to = state.view(),
                                    .gradient = gradient.data(),
                                    .segments = segments,
                                    .coefficients = c,
                                    .gradient_scale = &gradient_scale});
  c.gradient_scale = gradient_scale;
  for (const AdamSegment& segment : segments) {
    const auto begin = static_cast<std::size_t>(segment.begin);
    const auto count = static_cast<std::size_t>(segment.end) - begin;
    c.weight_decay = segment.decays ? 0.1F : 0.0F;
    adamw(expected.view(begin), std::span(gradient).subspan(begin, count), c, 1);
  }
  CHECK(state == expected);
}

TEST_CASE("a bf16 gradient gives the bits of the same gradient in fp32") {
  constexpr std::size_t kCount = 4099;
  const std::vector<BFloat16Bits> narrow = narrowed(random_values(kCount, 4));
  const std::vector<float> wide = widened(narrow);
  SplitState from_narrow{State(kCount)};
  SplitState from_wide{State(kCount)};
  adamw(from_narrow.view(), std::span<const BFloat16Bits>(narrow), {}, 1);
  adamw(from_wide.view(), std::span<const float>(wide), {}, 1);
  REQUIRE(from_narrow == from_wide);
}

TEST_CASE("twenty updates of a split master are those of a whole one, split after them") {
  constexpr std::size_t kCount = 50'021;
  State whole(kCount);
  SplitState split(whole);
  AdamCoefficients c{.weight_decay = 0.1F};
  for (c.step = 1; c.step <= 20; ++c.step) {
    const std::vector<float> gradient = random_values(kCount, unsigned(c.step) + 5);
    adamw(whole.view(), std::span<const float>(gradient), c, 2);
    adamw(split.view(), std::span<const float>(gradient), c, 2);
  }
  CHECK(split == SplitState(whole));
}

TEST_CASE("bf16 rounds to nearest even and keeps NaN and infinity") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(round_to_bf16(1.0F) == 0x3F80);
  CHECK(round_to_bf16(1.0F + 1.0F / 256) == 0x3F80);  // a tie, down to even
  CHECK(round_to_bf16(1.0F + 3.0F / 256) == 0x3F82);  // a tie, up to even
  CHECK(round_to_bf16(-infinity) == 0xFF80);
  CHECK(round_to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(std::isnan(widen_bf16(round_to_bf16(std::bit_cast<float>(0x7F800001U)))));
  CHECK(std::isnan(widen_bf16(round_to_bf16(std::bit_cast<float>(0xFFFFFFFFU)))));
}

}  // namespace
}  // namespace athanor
