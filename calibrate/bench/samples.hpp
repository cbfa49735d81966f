// SPDX-License-Identifier: Apache-2.0
// Repeated timings of one thing, and the rule that says when to stop.
#pragma once

#include "sim/base/quantities.hpp"

#include <vector>

namespace athanor {

/// Durations of repetitions. Most users take the median and the quartiles, because other work on
/// the machine can only make a repetition longer.
class Samples {
 public:
  void add(Seconds seconds);
  [[nodiscard]] int count() const noexcept { return static_cast<int>(sorted_.size()); }
  [[nodiscard]] Seconds total() const noexcept { return total_; }
  /// Mean of all samples, for speeds that a device regulates around a mean. 0 without samples.
  [[nodiscard]] Seconds mean() const noexcept { return count() > 0 ? total_ / count() : 0; }
  /// Median; 0 without samples.
  [[nodiscard]] Seconds median() const noexcept { return quantile(0.5); }
  /// Mean of the middle half, for times that a step adds up. If times form two groups it lies
  /// between them; the few repetitions that were interrupted do not count. 0 without samples.
  [[nodiscard]] Seconds interquartile_mean() const noexcept;
  [[nodiscard]] Seconds interquartile_range() const noexcept;
  /// Standard error of the median divided by the median, estimated from the quartiles as for a
  /// normal distribution. Infinite for fewer than two samples.
  [[nodiscard]] double relative_error() const noexcept;

 private:
  [[nodiscard]] Seconds quantile(double fraction) const noexcept;

  std::vector<Seconds> sorted_;
  Seconds total_ = 0;
};

/// Rule for the end of a measurement: stop when the median is known to `relative_error`, or when
/// the limit on repetitions or seconds is reached.
struct StoppingRule {
  int min_repetitions = 5;
  int max_repetitions = 400;
  Seconds min_seconds = 0.01;
  Seconds max_seconds = 0.2;
  double relative_error = 0.01;

  [[nodiscard]] bool satisfied_by(const Samples& samples) const noexcept;
};

}  // namespace athanor
