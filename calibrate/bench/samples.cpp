// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/samples.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace athanor {
namespace {

constexpr double kLowerQuartile = 0.25;
constexpr double kUpperQuartile = 0.75;
/// Standard error of the median times sqrt(n), per interquartile range. For a normal distribution
/// the range is 1.349 sigma and the error is sqrt(pi / 2) sigma / sqrt(n).
constexpr double kErrorPerRange = 1.2533 / 1.349;

}  // namespace

void Samples::add(Seconds seconds) {
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), seconds), seconds);
  total_ += seconds;
}

Seconds Samples::interquartile_mean() const noexcept {
  // Order statistic i stands for the share [i, i + 1] / n.
  const auto n = static_cast<double>(sorted_.size());
  Seconds sum = 0;
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const double begin = std::max(static_cast<double>(i), kLowerQuartile * n);
    const double end = std::min(static_cast<double>(i + 1), kUpperQuartile * n);
    if (end > begin) sum += (end - begin) * sorted_[i];
  }
  return n > 0 ? sum / ((kUpperQuartile - kLowerQuartile) * n) : 0;
}

Seconds Samples::interquartile_range() const noexcept {
  return quantile(kUpperQuartile) - quantile(kLowerQuartile);
}

double Samples::relative_error() const noexcept {
  if (count() < 2) {
    return std::numeric_limits<double>::infinity();
  }
  const Seconds error = kErrorPerRange * interquartile_range() / std::sqrt(double(count()));
  return error == 0 ? 0 : error / median();
}

/// Interpolates linearly between order statistics; 0 without samples.
Seconds Samples::quantile(double fraction) const noexcept {
  if (sorted_.empty()) {
    return 0;
  }
  const double position = fraction * static_cast<double>(sorted_.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted_.size() - 1);
  return std::lerp(sorted_[below], sorted_[above], position - static_cast<double>(below));
}

bool StoppingRule::satisfied_by(const Samples& samples) const noexcept {
  if (samples.count() < min_repetitions) {
    return false;
  }
  if (samples.count() >= max_repetitions || samples.total() >= max_seconds) {
    return true;
  }
  return samples.total() >= min_seconds && samples.relative_error() <= relative_error;
}

}  // namespace athanor
