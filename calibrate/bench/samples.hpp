// SPDX-License-Identifier: Apache-2.0
// Repeated timings of one thing, and when there are enough of them.
#pragma once

#include "sim/base/quantities.hpp"

#include <vector>

namespace athanor {

/// Durations of repetitions. Median and quartiles, because other work on the machine only ever
/// makes a repetition longer.
class Samples {
 public:
  void add(Seconds seconds);
  [[nodiscard]] int count() const noexcept { return static_cast<int>(sorted_.size()); }
  [[nodiscard]] Seconds total() const noexcept { return total_; }
  /// For rates that a device regulates around a mean.
  [[nodiscard]] Seconds mean() const noexcept { return count() > 0 ? total_ / count() : 0; }
  [[nodiscard]] Seconds median() const noexcept { return quantile(0.5); }
  /// Mean of the middle half, for what a step adds up: of times in two groups it is between them,
  /// and the few that were interrupted do not count. 0 without samples.
  [[nodiscard]] Seconds interquartile_mean() const noexcept;
  [[nodiscard]] Seconds interquartile_range() const noexcept;
  /// Standard error of the median over the median, from the quartiles of a normal distribution;
  /// infinite below two samples.
  [[nodiscard]] double relative_error() const noexcept;

 private:
  [[nodiscard]] Seconds quantile(double fraction) const noexcept;

  std::vector<Seconds> sorted_;
  Seconds total_ = 0;
};

/// When to stop repeating: the median is known to `relative_error`, or time or patience is spent.
struct StoppingRule {
  int min_repetitions = 5;
  int max_repetitions = 400;
  Seconds min_seconds = 0.01;
  Seconds max_seconds = 0.2;
  double relative_error = 0.01;

  [[nodiscard]] bool satisfied_by(const Samples& samples) const noexcept;
};

}  // namespace athanor
