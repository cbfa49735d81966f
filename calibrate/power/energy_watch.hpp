// SPDX-License-Identifier: Apache-2.0
// Energy over an interval, from a counter that changes only now and then.
#pragma once

#include "calibrate/bench/measure.hpp"
#include "sim/base/quantities.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace athanor {

/// Changes of an energy counter. Between changes energy counts as linear.
class EnergyChanges {
 public:
  /// Notes a reading of the counter.
  void note(Moment moment, double joules);
  [[nodiscard]] bool any_after(Moment moment) const noexcept;
  /// Returns the energy between two moments. Throws Error unless the counter changed before `from`
  /// and after `to`.
  [[nodiscard]] double joules(Moment from, Moment to) const;

 private:
  struct Change {
    Moment moment;
    double joules = 0;
  };
  [[nodiscard]] double at(Moment moment) const;

  std::vector<Change> changes_;
};

/// Reads a counter on a thread of its own while it lives. NVML's counter changes ten times a
/// second, so reading it only where an interval begins and ends would miss up to a tenth of a
/// second.
class EnergyWatch {
 public:
  /// Time after which a counter that has not changed is given up.
  static constexpr Seconds kPatience = 1;

  /// Watches `counter`, which returns Joules, or nothing if it has gone.
  explicit EnergyWatch(std::function<std::optional<double>()> counter);

  /// Returns whether the counter has changed since `moment`, or has been given up. What is measured
  /// has to run from a change before the interval until a change after it.
  [[nodiscard]] bool has_changed_since(Moment moment) const;
  /// Repeats `activity` until the counter has changed, or has been given up.
  void until_change(const std::function<void()>& activity) const;
  /// Returns the energy between two moments. Throws Error if the counter has gone, or did not
  /// change before `from` and after `to`. So does watts().
  [[nodiscard]] double joules(Moment from, Moment to) const;
  [[nodiscard]] double watts(Moment from, Moment to) const;

 private:
  void watch(const std::stop_token& stop);

  std::function<std::optional<double>()> counter_;
  mutable std::mutex mutex_;
  EnergyChanges changes_;
  std::jthread thread_;  ///< last, because it uses the others
};

}  // namespace athanor
