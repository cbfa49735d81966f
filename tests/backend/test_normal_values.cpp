// SPDX-License-Identifier: Apache-2.0
// Normal random numbers by place: their bits, their distribution, and that any part can be drawn.
#include "executor/cpu/normal_values.hpp"
#include "sim/base/split_mix.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <vector>

namespace athanor {
namespace {

std::vector<float> drawn(std::uint64_t key, std::int64_t first, std::size_t count,
                         float deviation = 1.0F, int threads = 1) {
  std::vector<float> values(count, -1.0F);
  normal_values(key, first, deviation, values, threads);
  return values;
}

/// Number `index` of the sequence, by the standard library's functions.
double reference(std::uint64_t key, std::int64_t index) {
  const std::int64_t block = index / 512, place = index % 512;
  const std::int64_t count = block * 256 + place % 256 + 1;
  const std::uint64_t bits =
      split_mix_finalizer(key + static_cast<std::uint64_t>(count) * 0x9e3779b97f4a7c15U);
  const double radius =
      std::sqrt(-2 * std::log((static_cast<double>(bits >> 32U) + 0.5) * 0x1p-32));
  const std::uint64_t turn = bits & 0xffffffffU;
  const double quarter = static_cast<double>(turn & 0x3fffffffU) * 0x1p-30 - 0.5;
  const double angle = (quarter + static_cast<double>(turn >> 30U)) * (std::numbers::pi / 2);
  return radius * (place < 256 ? std::cos(angle) : std::sin(angle));
}

double correlation(const std::vector<float>& values, std::size_t distance) {
  double sum = 0;
  for (std::size_t i = distance; i < values.size(); ++i) {
    sum += double{values[i]} * double{values[i - distance]};
  }
  return sum / static_cast<double>(values.size() - distance);
}

}  // namespace

TEST_CASE("normal numbers are those of Box and Muller on SplitMix64") {
  const std::vector<float> values = drawn(42, 0, 20000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = reference(42, static_cast<std::int64_t>(i));
    if (std::abs(double{values[i]} - expected) > 3e-7 * (1 + std::abs(expected))) {
      CAPTURE(i);
      CHECK(double{values[i]} == Catch::Approx(expected));
    }
  }
}

TEST_CASE("any part of a sequence of normal numbers is drawn by itself") {
  const std::vector<float> whole = drawn(7, 0, 100000, 0.02F);
  CHECK(drawn(7, 0, 100000, 0.02F, 3) == whole);
  for (const std::int64_t first : {1, 255, 256, 511, 512, 513, 77777}) {
    for (const std::size_t count : {0, 1, 300, 513, 20001}) {
      const auto begin = whole.begin() + first;
      CHECK(drawn(7, first, count, 0.02F, 2) ==
            std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
  CHECK(drawn(8, 0, 1000) != drawn(7, 0, 1000));
}

TEST_CASE("normal numbers have the normal distribution and are independent") {
  constexpr std::size_t kCount = 1 << 20;
  std::vector<float> values = drawn(2026, std::int64_t{1} << 40U, kCount);
  constexpr double kError = 1.0 / 1024;  // standard error of a mean
  for (const std::size_t distance : {1, 2, 255, 256, 257, 512}) {
    CHECK(std::abs(correlation(values, distance)) < 4 * kError);
  }
  const auto moment = [&](int power) {
    return std::accumulate(values.begin(), values.end(), 0.0,
                           [power](double sum, float v) { return sum + std::pow(v, power); }) /
           static_cast<double>(kCount);
  };
  CHECK(std::abs(moment(1)) < 4 * kError);
  CHECK(std::abs(moment(2) - 1) < 4 * std::sqrt(2.0) * kError);
  CHECK(std::abs(moment(3)) < 4 * std::sqrt(15.0) * kError);
  CHECK(std::abs(moment(4) - 3) < 4 * std::sqrt(96.0) * kError);
  std::sort(values.begin(), values.end());
  double farthest = 0;  // Kolmogorov and Smirnov's statistic
  for (std::size_t i = 0; i < kCount; ++i) {
    const double below = std::erfc(-double{values[i]} / std::numbers::sqrt2) / 2;
    farthest = std::max(farthest, std::abs(below - static_cast<double>(i) / kCount));
  }
  CHECK(farthest < 1.95 * kError);  // exceeded once in a thousand samples
  CHECK(values.front() > -6.8F);
  CHECK(values.back() < 6.8F);
}

}  // namespace athanor
