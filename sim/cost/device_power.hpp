// SPDX-License-Identifier: Apache-2.0
// Power of one device over simulated time: the watts of its lanes, what its limits still allow, and
// the speed that they leave to its kernels.
#pragma once

#include "sim/cost/power_draw.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace athanor {

/// Every limit has a budget: the watts above idle that it has left over the mean power, which
/// follows the power with the limit's window as time constant. While a budget is empty, kernels
/// that would draw more than its limit run at the speed at which they draw just that. The power of
/// other lanes counts in the mean and does not slow kernels down by itself, because contention
/// between copies or collectives and kernels was measured under the same limits (ContentionModel).
/// So with an empty budget all lanes together draw its limit at most.
///
/// Budgets start empty, as under the load of the steps before.
class DevicePower {
 public:
  explicit DevicePower(const PowerModel& model);

  /// Whether history() is kept.
  void keep_history(bool keep) noexcept { keeps_history_ = keep; }
  /// Empties the budgets, stops everything, and forgets energy and history.
  void reset() noexcept;
  /// Lets time pass with what runs. At most until_change() at once.
  void pass(Seconds time);
  void start(Lane lane, const PowerDraw& draw) noexcept;
  void stop(Lane lane) noexcept;

  /// Share of the unthrottled speed at which the compute lane runs now.
  [[nodiscard]] double speed() const noexcept { return speed_; }
  [[nodiscard]] double watts() const noexcept { return idle_watts_ + drawn_; }
  /// Seconds for which speed() and watts() stay as they are if nothing starts or stops; may be
  /// infinite.
  [[nodiscard]] Seconds until_change() const noexcept;
  /// Energy since reset().
  [[nodiscard]] double joules() const noexcept { return joules_; }
  /// One entry of the history: watts() from `start` after reset() until the next entry.
  struct Level {
    Seconds start = 0;
    double watts = 0;
  };
  [[nodiscard]] std::span<const Level> history() const noexcept { return history_; }
  /// Budgets as shares of an idle device's, and how often time passed while each was empty.
  [[nodiscard]] std::span<const double> levels() const noexcept { return levels_; }
  [[nodiscard]] std::span<const std::int64_t> times_empty() const noexcept { return times_empty_; }

 private:
  void settle() noexcept;

  double idle_watts_;
  std::vector<double> watts_above_idle_, windows_, levels_;  ///< by limit
  std::vector<std::int64_t> times_empty_;                    ///< by limit
  std::array<PowerDraw, kNumLanes> power_draws_{};           ///< by lane; none: idle
  double speed_ = 1, drawn_ = 0, joules_ = 0;
  /// The watts allowed and the kernel that speed_ was computed for.
  double allowed_ = std::numeric_limits<double>::infinity();
  PowerDraw kernel_;
  bool keeps_history_ = false;
  Seconds passed_ = 0;
  std::vector<Level> history_;
};

}  // namespace athanor
