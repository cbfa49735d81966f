// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/random_effects.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace athanor {
namespace {

/// Weighted mean and its variance, where the values differ by `between` squared.
Observation weighted_mean(std::span<const Observation> observations, double between_variance) {
  double weights = 0, sum = 0;
  for (const Observation& of : observations) {
    const double weight = 1 / (of.variance + between_variance);
    weights += weight;
    sum += weight * of.value;
  }
  return {sum / weights, 1 / weights};
}

/// How much larger the weighted squares of the deviations are than expected. Falls with
/// `between_variance`.
double excess(std::span<const Observation> observations, double between_variance) {
  const double mean = weighted_mean(observations, between_variance).value;
  double squares = 0;
  for (const Observation& of : observations) {
    squares += (of.value - mean) * (of.value - mean) / (of.variance + between_variance);
  }
  return squares - static_cast<double>(observations.size() - 1);
}

/// Halves the range that holds the root until doubles tell no difference.
double between_variance(std::span<const Observation> observations) {
  if (observations.size() < 2 || excess(observations, 0) <= 0) return 0;
  // With the squares alone in place of variances, the excess is at most 0.
  double low = 0, high = 0;
  for (const Observation& of : observations) {
    high += (of.value - observations.front().value) * (of.value - observations.front().value);
  }
  for (double middle = high / 2; middle > low && middle < high; middle = (low + high) / 2) {
    (excess(observations, middle) > 0 ? low : high) = middle;
  }
  return high;
}

}  // namespace

RandomEffects random_effects(std::span<const Observation> observations) {
  assert(!observations.empty());
  const double between = between_variance(observations);
  const Observation mean = weighted_mean(observations, between);
  return {mean.value, mean.variance, std::sqrt(between)};
}

Observation shrunken_first(std::span<const Observation> observations) {
  const Observation& first = observations.front();
  if (observations.size() == 1) return first;
  const RandomEffects all = random_effects(observations);
  const double to_mean = first.variance / (first.variance + all.between * all.between);
  const double moved = to_mean * (all.mean - first.value);
  // The mean holds the first observation as well, which its variance counts here.
  const double known = (1 - to_mean) * first.variance + to_mean * to_mean * all.mean_variance;
  const double of_weight = 2 / static_cast<double>(observations.size() - 1);  // relative variance
  return {first.value + moved, std::min(first.variance, known + of_weight * moved * moved)};
}

}  // namespace athanor
