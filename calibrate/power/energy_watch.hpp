// SPDX-License-Identifier: Apache-2.0
// Energy over an interval, by a counter that changes only now and then.
#pragma once

#include "calibrate/bench/measure.hpp"
#include "sim/base/quantities.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace athanor {

/// When a counter of energy changed, and to what. Between changes energy counts as linear.
class EnergyChanges {
 public:
  void note(Moment moment, double joules);
  [[nodiscard]] bool any_after(Moment moment) const noexcept;
  /// Throws Error where the counter has not changed before `from` and after `to`.
  [[nodiscard]] double joules(Moment from, Moment to) const;

 private:
  struct Change {
    Moment moment;
    double joules = 0;
  };
  [[nodiscard]] double at(Moment moment) const;

  std::vector<Change> changes_;
};

/// Reads a counter from a thread of its own as long as it lives. NVML's counter changes ten times a
/// second: read where an interval begins and ends, it is off by a tenth of a second's energy.
class EnergyWatch {
 public:
  /// A counter that has not changed for so long does not count.
  static constexpr Seconds kPatience = 1;

  /// `counter` gives Joules, or nothing where it has gone.
  explicit EnergyWatch(std::function<std::optional<double>()> counter);

  /// Whether the counter has changed since, or will not: it has kPatience. What is measured must go
  /// on from such a change before an interval until one after it.
  [[nodiscard]] bool has_changed_since(Moment moment) const;
  /// Repeats `activity` until the counter has changed since now, or will not.
  void until_change(const std::function<void()>& activity) const;
  /// Throws Error where the counter has gone, or has not changed before `from` and after `to`.
  [[nodiscard]] double joules(Moment from, Moment to) const;
  [[nodiscard]] double watts(Moment from, Moment to) const;

 private:
  void watch(const std::stop_token& stop);

  std::function<std::optional<double>()> counter_;
  mutable std::mutex mutex_;
  EnergyChanges changes_;
  std::jthread thread_;  ///< last: it uses the others
};

}  // namespace athanor
