// SPDX-License-Identifier: Apache-2.0
// One device's power over simulated time: what its lanes draw, what its limits still allow, and how
// much they slow its kernels down.
#pragma once

#include "sim/cost/power_draw.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace athanor {

/// Every limit has a budget: what its watts above idle have left above the mean of what is drawn,
/// which follows the power with the limit's window as time constant. While a budget is empty,
/// kernels that would draw more than its limit run at the speed at which they draw just that. What
/// other lanes draw counts in the mean and does not slow kernels down by itself: how a copy or a
/// collective slows a kernel was measured under the same limits (ContentionModel). So with an empty
/// budget all lanes together draw its limit at most.
///
/// Budgets start empty, as under the load of the steps before.
class DevicePower {
 public:
  explicit DevicePower(const PowerModel& model);

  /// Whether history() is kept.
  void keep_history(bool keep) noexcept { keeps_history_ = keep; }
  /// Budgets empty, nothing running, no energy spent, no history.
  void reset() noexcept;
  /// Lets time pass with what runs. At most until_change() at once.
  void pass(Seconds time);
  void start(Lane lane, const PowerDraw& draw) noexcept;
  void stop(Lane lane) noexcept;

  /// Of full clock, at which the compute lane runs now.
  [[nodiscard]] double speed() const noexcept { return speed_; }
  [[nodiscard]] double watts() const noexcept { return idle_watts_ + drawn_; }
  /// How long speed() and watts() stay as they are if nothing starts or stops; may be infinite.
  [[nodiscard]] Seconds until_change() const noexcept;
  /// Energy since reset().
  [[nodiscard]] double joules() const noexcept { return joules_; }
  /// watts() from `start` after reset() until the next entry.
  struct Level {
    Seconds start = 0;
    double watts = 0;
  };
  [[nodiscard]] std::span<const Level> history() const noexcept { return history_; }
  /// Budgets, as shares of what an idle device has, and how often time passed while each was empty.
  [[nodiscard]] std::span<const double> levels() const noexcept { return levels_; }
  [[nodiscard]] std::span<const std::int64_t> times_empty() const noexcept { return times_empty_; }

 private:
  void settle() noexcept;

  double idle_watts_;
  std::vector<double> watts_above_idle_, windows_, levels_;  ///< by limit
  std::vector<std::int64_t> times_empty_;                    ///< by limit
  std::array<PowerDraw, kNumLanes> power_draws_{};           ///< by lane; none: idle
  double speed_ = 1, drawn_ = 0, joules_ = 0;
  double allowed_ = std::numeric_limits<double>::infinity();  ///< of which, and of this kernel,
  PowerDraw kernel_;                                          ///< speed_ is
  bool keeps_history_ = false;
  Seconds passed_ = 0;
  std::vector<Level> history_;
};

}  // namespace athanor
