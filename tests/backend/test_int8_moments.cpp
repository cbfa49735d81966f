// SPDX-License-Identifier: Apache-2.0
// Tests of AdamW whose moments are int8 with scales of blocks: the levels, what is lost, that
// nothing is lost twice, and equal bits under every cut, placement and number of threads.
#include "executor/cpu/adam.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/block_moments.hpp"
#include "tests/backend/random_values.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace athanor {
namespace {

using Catch::Approx;
using test::narrowed;
using test::random_values;
using test::widened;

constexpr std::size_t kBlock = kMomentBlock;

/// Both moments of many blocks, encoded.
struct Encoded {
  std::vector<std::uint8_t> first, second;
  std::vector<MomentScales> scales;
  explicit Encoded(std::size_t count) : first(count), second(count), scales(count / kBlock) {}
  Encoded(std::span<const float> firsts, std::span<const float> seconds) : Encoded(firsts.size()) {
    encode_first_moments(firsts, first.data(), scales.data());
    encode_second_moments(seconds, second.data(), scales.data());
  }
  [[nodiscard]] std::vector<float> firsts() const {
    std::vector<float> moments(first.size());
    decode_first_moments(first, scales.data(), moments.data());
    return moments;
  }
  [[nodiscard]] std::vector<float> seconds() const {
    std::vector<float> moments(second.size());
    decode_second_moments(second, scales.data(), moments.data());
    return moments;
  }
  bool operator==(const Encoded&) const = default;
};

/// Moments whose magnitudes span many decades, some of them 0, with the largest negative in every
/// other block.
std::vector<float> wide_moments(std::size_t count, unsigned seed, float scale) {
  std::vector<float> values = random_values(count, seed, scale);
  const std::vector<float> exponents = random_values(count, seed + 100, 1.5F);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] *= i % 7 == 3 ? 0.0F : std::pow(10.0F, exponents[i]);  // zeros of either sign
  }
  for (std::size_t at = 0; at < count; at += kBlock) {
    const auto block = std::span(values).subspan(at, kBlock);
    float& largest = *std::ranges::max_element(block, {}, [](float v) { return std::fabs(v); });
    largest = std::copysign(largest, at / kBlock % 2 == 0 ? 1.0F : -1.0F);
  }
  return values;
}

std::vector<float> squares(std::vector<float> values) {
  for (float& value : values) value *= value;
  return values;
}

/// A split master with moments in int8.
struct NarrowState {
  std::vector<BFloat16Bits> parameters;
  std::vector<std::int16_t> rests;
  Encoded moments;
  explicit NarrowState(const std::vector<float>& master)
      : parameters(master.size()),
        rests(master.size()),
        moments(wide_moments(master.size(), 11, 1e-3F),
                squares(wide_moments(master.size(), 12, 1e-3F))) {
    split_masters(master, parameters, rests, 1);
  }
  [[nodiscard]] AdamStateView view(std::size_t offset = 0) {
    const AdamStateView all{.parameters = parameters.data(),
                            .rests = rests.data(),
                            .first_moment_int8 = moments.first.data(),
                            .second_moment_int8 = moments.second.data(),
                            .scales = moments.scales.data()};
    return all.starting_at(static_cast<std::int64_t>(offset));
  }
  bool operator==(const NarrowState&) const = default;
};

/// Segments that begin and end within blocks, with gaps; every other one decays.
std::vector<AdamSegment> ragged_segments(std::int64_t count) {
  std::vector<AdamSegment> segments;
  std::mt19937 random(5);
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t end = std::min<std::int64_t>(count, begin + 1 + random() % 3000);
    segments.push_back({begin, end, segments.size() % 2 == 0});
    begin = round_up(end, 32) + 32 * static_cast<std::int64_t>(random() % 2);
    if (random() % 8 == 0) begin = round_up(begin, 1024);
  }
  return segments;
}

}  // namespace

TEST_CASE("levels are those of the dynamic map: seven decades, each twice as fine as the next") {
  // As the paper has them, and bitsandbytes makes them: means of 2^i equal parts of [0.1, 1] with a
  // sign, of 2^(i+1) without, times 10^(i-6); and 0 and 1.
  for (const bool has_sign : {true, false}) {
    std::set<float> expected{0.0F, 1.0F};
    for (int i = 0; i < 7; ++i) {
      const int parts = (has_sign ? 1 : 2) << i;
      for (int j = 0; j < parts; ++j) {
        const double low = 0.1 + 0.9 * j / parts, high = 0.1 + 0.9 * (j + 1) / parts;
        expected.insert(static_cast<float>((low + high) / 2 * std::pow(10.0, i - 6)));
      }
    }
    REQUIRE(expected.size() == (has_sign ? 129U : 256U));
    const MomentMap map = make_moment_map(has_sign);
    std::size_t at = 0;
    for (const float level : expected) CHECK(map.level[at++] == Approx(level).epsilon(1e-6));
  }
}

TEST_CASE("the nearest level is found for every magnitude, also at borders") {
  for (const bool has_sign : {true, false}) {
    const MomentMap map = make_moment_map(has_sign);
    const int last = has_sign ? 128 : 255;
    const auto check = [&](float magnitude) {
      const auto* const end = map.border + last;
      const auto expected = std::lower_bound(map.border, end, magnitude) - map.border;
      REQUIRE(nearest_level(map, magnitude) == static_cast<std::uint32_t>(expected));
    };
    for (std::uint32_t bits = 0; bits <= 0x3F800000U; bits += 997)
      check(std::bit_cast<float>(bits));
    for (int i = 0; i < last; ++i) {
      check(map.border[i]);
      check(std::nextafter(map.border[i], 0.0F));
      check(std::nextafter(map.border[i], 2.0F));
      check(map.level[i + 1]);
    }
  }
}

TEST_CASE("the largest moment of a block is exact, and small ones keep their order of magnitude") {
  constexpr std::size_t kCount = 64 * kBlock;
  const std::vector<float> first = wide_moments(kCount, 1, 1e-3F);
  const std::vector<float> second = squares(wide_moments(kCount, 2, 1e-3F));
  const Encoded encoded(first, second);
  const std::vector<float> firsts = encoded.firsts(), seconds = encoded.seconds();
  for (std::size_t i = 0; i < kCount; ++i) {
    const MomentScales& scales = encoded.scales[i / kBlock];
    const float part = first[i] / scales.first;
    if (part == 1.0F) CHECK(firsts[i] == first[i]);
    if (std::fabs(part) > 1e-3F) CHECK(firsts[i] == Approx(first[i]).epsilon(0.25));
    if (std::fabs(part) > 0.1F)
      CHECK(firsts[i] == Approx(first[i]).margin(0.0071 * std::fabs(scales.first)));
    CHECK(firsts[i] * first[i] >= 0);
    if (first[i] == 0) CHECK(firsts[i] == 0);
    if (second[i] == scales.second) CHECK(seconds[i] == second[i]);
    CHECK((seconds[i] == 0) == (second[i] == 0));
  }
}

TEST_CASE("moments that were read are written as the same numbers") {
  constexpr std::size_t kCount = 64 * kBlock;
  const float scale = GENERATE(1.0F, 1e-3F, 1e-18F, 1e-21F);  // also squares that are subnormal
  const Encoded once(wide_moments(kCount, 1, scale), squares(wide_moments(kCount, 2, scale)));
  const Encoded twice(once.firsts(), once.seconds());
  CHECK(twice.firsts() == once.firsts());
  CHECK(twice.seconds() == once.seconds());
}

TEST_CASE("blocks of zeros are zero, and memory of zeros is moments of zero") {
  const std::vector<float> zeros(kBlock);
  const Encoded encoded(zeros, zeros);
  CHECK(encoded == Encoded(kBlock));
  CHECK(encoded.firsts() == zeros);
  CHECK(encoded.seconds() == zeros);
  const std::vector<float> negative(kBlock, -0.0F);
  CHECK(Encoded(negative, zeros).firsts() == zeros);
}

TEST_CASE("a block with an infinite or undefined moment is encoded without an error") {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> first(kBlock, 1.0F), second(kBlock, 1.0F);
  first[7] = -infinity;
  second[9] = std::numeric_limits<float>::quiet_NaN();
  const Encoded encoded(first, second);
  CHECK(encoded.firsts()[7] == -infinity);
  CHECK(std::isnan(encoded.seconds()[9]));
}

TEST_CASE("an update reads int8 moments as their values, and encodes them only afterwards") {
  constexpr std::size_t kCount = 40 * kBlock;
  const std::vector<float> master = random_values(kCount, 1);
  const std::vector<float> gradient = random_values(kCount, 2, 1e-3F);
  const AdamCoefficients c{.weight_decay = 0.01F, .gradient_scale = 0.5F, .step = 40};
  const std::vector<AdamSegment> segments = ragged_segments(kCount);
  NarrowState state(master);
  std::vector<float> whole = master, first = state.moments.firsts(),
                     second = state.moments.seconds();
  for (const AdamSegment& segment : segments) {
    AdamCoefficients own = c;
    if (!segment.decays) own.weight_decay = 0;
    adamw({.master = whole.data() + segment.begin,
           .first_moment = first.data() + segment.begin,
           .second_moment = second.data() + segment.begin},
          std::span<const float>(gradient).subspan(
              static_cast<std::size_t>(segment.begin),
              static_cast<std::size_t>(segment.end - segment.begin)),
          own, 1);
  }
  adamw_in_blocks(state.view(), state.view(), std::span<const float>(gradient), segments, c, 2);
  std::vector<float> joined(kCount);
  join_masters(state.parameters, state.rests, joined, 1);
  CHECK(joined == whole);
  const Encoded expected(first, second);
  CHECK(state.moments.firsts() == expected.firsts());
  CHECK(state.moments.seconds() == expected.seconds());
}

TEST_CASE("int8 moments have the same bits however an update is cut, placed and threaded") {
  constexpr std::size_t kCount = 160 * kBlock;
  const std::vector<BFloat16Bits> narrow = narrowed(random_values(kCount, 2));
  const std::vector<float> wide = widened(narrow);
  const AdamCoefficients c{.weight_decay = 0.01F, .step = 7};
  const std::vector<AdamSegment> segments = ragged_segments(kCount);
  const NarrowState old(random_values(kCount, 1));
  NarrowState expected = old;
  adamw_in_blocks(expected.view(), expected.view(), std::span<const float>(wide), segments, c, 1);

  const auto check = [&](auto gradient, int threads) {
    NarrowState in_place = old;
    adamw_in_blocks(in_place.view(), in_place.view(), gradient, segments, c, threads);
    CHECK(in_place == expected);
    NarrowState before = old, after = old;
    std::ranges::fill(after.rests, std::int16_t{0});
    std::vector<BFloat16Bits> kept(kCount);
    adamw_in_blocks(before.view(), after.view(), gradient, segments, c, threads, kept.data());
    CHECK(after.moments == expected.moments);
    CHECK(after.parameters == expected.parameters);
    CHECK(before == old);
    for (const AdamSegment& s : segments) {
      CHECK(std::equal(kept.begin() + s.begin, kept.begin() + s.end,
                       old.parameters.begin() + s.begin));
      CHECK(std::equal(after.rests.begin() + s.begin, after.rests.begin() + s.end,
                       expected.rests.begin() + s.begin));
    }
    NarrowState cut = old;
    std::mt19937 random(3);
    for (std::size_t offset = 0; offset < kCount;) {
      const std::size_t count = std::min<std::size_t>(kCount - offset, kBlock * (1 + random() % 9));
      std::vector<AdamSegment> own;
      for (AdamSegment s : segments) {
        const auto begin = static_cast<std::int64_t>(offset);
        s = {std::max(s.begin - begin, std::int64_t{0}),
             std::min(s.end - begin, static_cast<std::int64_t>(count)), s.decays};
        if (s.begin < s.end) own.push_back(s);
      }
      const AdamStateView view = cut.view(offset);
      adamw_in_blocks(view, view, gradient.subspan(offset, count), own, c, threads);
      offset += count;
    }
    CHECK(cut == expected);
  };
  const int threads = GENERATE(1, 3);
  check(std::span<const float>(wide), threads);
  check(std::span<const BFloat16Bits>(narrow), threads);
}

TEST_CASE("a parameter whose gradients stop moves no further than with moments in fp32") {
  // A small neighbour of a large one: rounded to 0, its second moment would let the first one that
  // is left move it by the learning rate over epsilon.
  std::vector<float> master(kBlock), first(kBlock), second(kBlock), gradient(kBlock);
  first[0] = 1.0F, second[0] = 1.0F;
  first[1] = 3e-5F, second[1] = 1e-9F;
  Encoded moments(first, second);
  const AdamStateView state{.master = master.data(),
                            .first_moment_int8 = moments.first.data(),
                            .second_moment_int8 = moments.second.data(),
                            .scales = moments.scales.data()};
  const AdamCoefficients c{.learning_rate = 1e-3F, .step = 1000};
  adamw_in_blocks(state, state, std::span<const float>(gradient),
                  std::vector<AdamSegment>{{0, kMomentBlock, false}}, c, 1);
  CHECK(std::fabs(master[1]) < 2e-3F);
  CHECK(std::fabs(master[1]) > 0);
}

}  // namespace athanor
