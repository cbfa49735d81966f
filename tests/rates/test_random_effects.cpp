// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/random_effects.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <random>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

constexpr double kExact = 1e-9;

double mean_of(const std::vector<Observation>& observations) {
  double sum = 0;
  for (const Observation& of : observations) sum += of.value;
  return sum / static_cast<double>(observations.size());
}

TEST_CASE("one observation is all that is known") {
  const std::vector<Observation> one{{3, 0.5}};
  CHECK(random_effects(one).mean == 3);
  CHECK(random_effects(one).between == 0);
  CHECK(shrunken_first(one).value == 3);
  CHECK(shrunken_first(one).variance == 0.5);
}

TEST_CASE("observations of equal variance have their sample variance, less their own, in between") {
  // Values 0, 2, 4 and 6 have the sample variance 20 / 3. Of that 2 is each observation's own.
  const std::vector<Observation> four{{2, 2}, {0, 2}, {4, 2}, {6, 2}};
  const double between = 20.0 / 3 - 2;
  const RandomEffects effects = random_effects(four);
  CHECK_THAT(effects.mean, WithinRel(3.0, kExact));
  CHECK_THAT(effects.between, WithinRel(std::sqrt(between), kExact));
  CHECK_THAT(effects.mean_variance, WithinRel(20.0 / 3 / 4, kExact));
  // The first is drawn to the mean by its own part of the variance.
  const double to_mean = 2 / (20.0 / 3);
  CHECK_THAT(shrunken_first(four).value, WithinRel(2 + to_mean, kExact));
  CHECK_THAT(shrunken_first(four).variance,
             WithinRel((1 - to_mean) * 2 + to_mean * to_mean * (5.0 / 3 + 2.0 / 3), kExact));
}

TEST_CASE("observations that agree better than chance have nothing in between") {
  const std::vector<Observation> three{{1, 1}, {1.5, 1}, {2, 4}};
  CHECK(random_effects(three).between == 0);
  // The mean by inverse variance, and its variance.
  CHECK_THAT(shrunken_first(three).value, WithinRel((1 + 1.5 + 0.5) / 2.25, kExact));
  // To that comes that the weight of the mean is known from three.
  CHECK_THAT(shrunken_first(three).variance,
             WithinRel(1 / 2.25 + std::pow(3 / 2.25 - 1, 2), kExact));
}

TEST_CASE("observations of unequal variances meet Paule and Mandel's equation") {
  const std::vector<Observation> four{{0, 0.1}, {3, 1}, {-2, 0.5}, {5, 3}};
  const RandomEffects effects = random_effects(four);
  REQUIRE(effects.between > 0);
  double squares = 0;
  for (const Observation& of : four) {
    squares += std::pow(of.value - effects.mean, 2) / (of.variance + std::pow(effects.between, 2));
  }
  CHECK_THAT(squares, WithinRel(3.0, 1e-6));
}

TEST_CASE("observations that contradict each other stay as they are") {
  const std::vector<Observation> two{{0, 1e-4}, {10, 1e-4}};
  CHECK_THAT(random_effects(two).between, WithinRel(std::sqrt(50 - 1e-4), kExact));
  const Observation first = shrunken_first(two);
  CHECK_THAT(first.value, WithinAbs(0, 1e-4));
  CHECK_THAT(first.variance, WithinRel(1e-4, 1e-4));
}

TEST_CASE("shrinkage lies between the observation and the mean, and its variance below its own") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Observation> observations;
    const std::size_t count = 2 + static_cast<std::size_t>(trial) % 9;
    for (std::size_t i = 0; i < count; ++i) {
      observations.push_back({normal(random), 0.2 + std::abs(normal(random))});
    }
    const RandomEffects effects = random_effects(observations);
    const Observation first = shrunken_first(observations);
    const double own = observations.front().value;
    CHECK(std::abs(first.value - effects.mean) <= std::abs(own - effects.mean) * (1 + kExact));
    CHECK((first.value - effects.mean) * (own - effects.mean) >= -kExact);
    CHECK(first.variance <= observations.front().variance * (1 + kExact));
    CHECK(first.variance > 0);
  }
}

TEST_CASE("the variance in between is found again, and errors are as large as is said") {
  constexpr double kBetween = 0.5, kNoise = 0.5;
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  double between = 0, squares = 0, said = 0, alone = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    double truth = 0;
    std::vector<Observation> observations;
    for (int i = 0; i < 12; ++i) {
      const double machine = kBetween * normal(random);
      if (i == 0) truth = machine;
      observations.push_back({machine + kNoise * normal(random), kNoise * kNoise});
    }
    between += std::pow(random_effects(observations).between, 2) / kTrials;
    const Observation first = shrunken_first(observations);
    squares += std::pow(first.value - truth, 2) / kTrials;
    said += first.variance / kTrials;
    alone += std::pow(observations.front().value - truth, 2) / kTrials;
  }
  CHECK_THAT(between, WithinRel(kBetween * kBetween, 0.1));
  CHECK_THAT(squares, WithinRel(said, 0.15));
  CHECK(squares < 0.7 * alone);
}

TEST_CASE("observations that are there k times move no mean") {
  const std::vector<Observation> some{{0, 1}, {4, 1}, {5, 1}};
  std::vector<Observation> often;
  for (int k = 0; k < 3; ++k) often.insert(often.end(), some.begin(), some.end());
  CHECK_THAT(random_effects(often).mean, WithinRel(mean_of(some), kExact));
  // Nor do copies hide what lies in between.
  CHECK(random_effects(often).between > 0.7 * random_effects(some).between);
}

}  // namespace
}  // namespace athanor
