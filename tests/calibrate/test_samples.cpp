// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/measure.hpp"
#include "calibrate/bench/samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <random>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

Samples samples_of(std::initializer_list<Seconds> values) {
  Samples samples;
  for (const Seconds value : values) {
    samples.add(value);
  }
  return samples;
}

TEST_CASE("median and quartiles of known samples") {
  const Samples samples = samples_of({5, 1, 4, 2, 3});
  CHECK(samples.count() == 5);
  CHECK(samples.total() == 15);
  CHECK(samples.median() == 3);
  CHECK(samples.interquartile_range() == 2);
  CHECK(samples_of({1, 2}).median() == 1.5);
}

TEST_CASE("the mean of the middle half lies between two groups and ignores outliers") {
  CHECK_THAT(samples_of({1, 1, 1, 1, 2, 2, 2, 2}).interquartile_mean(), WithinRel(1.5, 1e-12));
  CHECK_THAT(samples_of({4, 1, 100, 2}).interquartile_mean(), WithinRel(3.0, 1e-12));
  CHECK_THAT(samples_of({1, 2, 3}).interquartile_mean(), WithinRel(2.0, 1e-12));
  CHECK_THAT(samples_of({1, 2, 6}).interquartile_mean(),
             WithinRel((0.25 + 2 + 6 * 0.25) / 1.5, 1e-12));
  CHECK(samples_of({5}).interquartile_mean() == 5);
  CHECK(Samples().interquartile_mean() == 0);
}

TEST_CASE("samples without spread have no error; fewer than two have no known error") {
  CHECK(samples_of({2, 2, 2}).relative_error() == 0);
  CHECK(samples_of({0, 0}).relative_error() == 0);
  CHECK(std::isinf(samples_of({2}).relative_error()));
  CHECK(Samples().median() == 0);
}

TEST_CASE("the relative error is that of the median of a normal distribution") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(10.0, 1.0);
  Samples samples;
  for (int i = 0; i < 4000; ++i) {
    samples.add(normal(random));
  }
  // sqrt(pi / 2) sigma / sqrt(n) / mean
  CHECK_THAT(samples.relative_error(), WithinRel(1.2533 / std::sqrt(4000.0) / 10, 0.1));
}

TEST_CASE("measuring stops when the median is known, or at a limit") {
  const StoppingRule rule{.min_repetitions = 3,
                          .max_repetitions = 6,
                          .min_seconds = 2,
                          .max_seconds = 100,
                          .relative_error = 0.01};
  CHECK_FALSE(rule.satisfied_by(samples_of({10, 10})));          // too few
  CHECK_FALSE(rule.satisfied_by(samples_of({0.1, 0.1, 0.1})));   // too short
  CHECK(rule.satisfied_by(samples_of({10, 10, 10})));            // known
  CHECK_FALSE(rule.satisfied_by(samples_of({1, 10, 20})));       // not known
  CHECK(rule.satisfied_by(samples_of({1, 10, 20, 1, 10, 20})));  // enough repetitions
  CHECK(rule.satisfied_by(samples_of({10, 50, 90})));            // enough time
}

TEST_CASE("every repetition runs the body") {
  int calls = 0;
  const StoppingRule rule{.min_repetitions = 4, .max_repetitions = 4};
  const Samples samples = measure(rule, [&] { ++calls; });
  CHECK(samples.count() == 4);
  CHECK(calls >= 6);  // warm-up, and batches since the body is short
}

}  // namespace
}  // namespace athanor
