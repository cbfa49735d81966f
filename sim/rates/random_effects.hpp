// SPDX-License-Identifier: Apache-2.0
// Random effects: what several looks at one quantity, none of them exact, say of the first.
#pragma once

#include <span>

namespace athanor {

/// One measured value, and its variance around the value that is meant.
struct Observation {
  double value = 0, variance = 0;
};

/// Values that are meant differ from one observation to the next: they are normal around `mean`
/// with the standard deviation `between`.
struct RandomEffects {
  double mean = 0;
  double mean_variance = 0;  ///< variance of `mean`
  double between = 0;
};

/// Estimates both. `between` is Paule and Mandel's: the one with which the weighted squares of the
/// deviations are as large as expected, sum((x - mean)^2 / (variance + between^2)) = n - 1. It is 0
/// where they are smaller already, and for one observation. Variances are above 0. Paule and
/// Mandel, Consensus values and weighting factors, Journal of Research of the NBS 87 (1982).
[[nodiscard]] RandomEffects random_effects(std::span<const Observation> observations);

/// Returns what is known of the first observation's own value: mean and variance of its posterior.
/// It is drawn to the mean of all, the more the less they differ. How much they differ is estimated
/// from few of them, so the weight of the mean has the relative variance 2 / (n - 1), which adds to
/// the posterior's. Without it, observations that happen to agree would seem too sure. See Morris,
/// Parametric empirical Bayes inference, JASA 78 (1983). The variance is at most that of the first
/// observation, which is known without the others.
[[nodiscard]] Observation shrunken_first(std::span<const Observation> observations);

}  // namespace athanor
