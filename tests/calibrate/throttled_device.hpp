// SPDX-License-Identifier: Apache-2.0
// A simulated GPU under a power limit.
#pragma once

#include "calibrate/power/power_fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace athanor::test {

/// Runs equal kernels in steps so small that nothing has to be solved.
struct ThrottledDevice {
  struct Limit {
    double watts = 700;
    Seconds window = 0.05;
  };
  double idle_watts = 120, unthrottled_watts = 900, exponent = 2;
  std::vector<Limit> limits{{}};
  Seconds kernel = 0.0014;  ///< unthrottled

  /// Runs bursts as CudaCalibrator::matmul_bursts() does, from idle.
  [[nodiscard]] KernelBursts bursts(Seconds on, Seconds off, Seconds seconds) const {
    KernelBursts ignored, bursts;
    Run run(*this);
    if (off > 0) run.repeat(on, off, kSettling, ignored);
    bursts.watts = run.repeat(off > 0 ? on : seconds, off, seconds, bursts);
    if (off == 0) bursts.watts = sustained_watts();
    return bursts;
  }

  [[nodiscard]] double sustained_watts() const {
    double least = unthrottled_watts;
    for (const Limit& limit : limits) least = std::min(least, limit.watts);
    return least;
  }

 private:
  static constexpr Seconds kSettling = 2;

  class Run {
   public:
    explicit Run(const ThrottledDevice& device)
        : device_(device), means_(device.limits.size(), device.idle_watts) {}

    /// Returns the mean power.
    double repeat(Seconds on, Seconds off, Seconds seconds, KernelBursts& bursts) {
      const Seconds from = now_;
      Seconds running = 0;
      joules_ = 0;
      while (now_ - from < seconds) {
        for (const Seconds begun = now_; now_ - begun < on;) {
          const Seconds start = now_;
          for (double done = 0; done < device_.kernel;) done += pass(true);
          bursts.kernels.push_back({start - from, now_ - start});
          running += now_ - start;
        }
        for (const Seconds paused = now_; now_ - paused < off;) pass(false);
      }
      bursts.running_share = running / (now_ - from);
      return joules_ / (now_ - from);
    }

   private:
    static constexpr Seconds kTick = 1e-6;

    /// Returns the progress of a kernel, in unthrottled seconds.
    Seconds pass(bool busy) {
      double watts = busy ? device_.unthrottled_watts : device_.idle_watts;
      for (std::size_t i = 0; i < means_.size(); ++i) {
        const Limit& limit = device_.limits[i];
        if (means_[i] >= limit.watts) watts = std::min(watts, limit.watts);
      }
      for (std::size_t i = 0; i < means_.size(); ++i) {
        means_[i] += (watts - means_[i]) * kTick / device_.limits[i].window;
      }
      joules_ += watts * kTick;
      now_ += kTick;
      if (!busy || watts == device_.unthrottled_watts) return kTick;
      const double share =
          (watts - device_.idle_watts) / (device_.unthrottled_watts - device_.idle_watts);
      return kTick * std::pow(share, 1 / device_.exponent);
    }

    const ThrottledDevice& device_;
    std::vector<double> means_;
    double joules_ = 0;
    Seconds now_ = 0;
  };
};

}  // namespace athanor::test
