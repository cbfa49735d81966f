// SPDX-License-Identifier: Apache-2.0
// A GPU under a power limit that is not there.
#pragma once

#include "calibrate/power_fit.hpp"

#include <cmath>

namespace athanor::test {

/// Runs equal kernels, in steps so small that nothing has to be solved.
struct LimitedDevice {
  double idle_watts = 120, full_watts = 900, limit_watts = 700, exponent = 2;
  Seconds window = 0.05;
  Seconds kernel = 0.0014;  ///< at full clock

  [[nodiscard]] double slowest() const {
    return std::pow((limit_watts - idle_watts) / (full_watts - idle_watts), 1 / exponent);
  }

  /// As CudaCalibrator::matmul_bursts, from idle.
  [[nodiscard]] KernelBursts bursts(Seconds on, Seconds off, Seconds seconds) const {
    KernelBursts bursts;
    Run run{*this};
    Seconds running = 0;
    while (run.now < seconds) {
      for (const Seconds begun = run.now; run.now < begun + (off > 0 ? on : seconds);) {
        const Seconds start = run.now;
        for (double done = 0; done < kernel;) done += run.pass(true);
        bursts.kernels.push_back({start, run.now - start});
        running += run.now - start;
      }
      for (const Seconds paused = run.now; run.now < paused + off;) run.pass(false);
    }
    bursts.running_share = running / run.now;
    bursts.watts = run.joules / run.now;
    return bursts;
  }

 private:
  struct Run {
    static constexpr Seconds kTick = 2e-7;
    const LimitedDevice& device;
    double mean = device.idle_watts, joules = 0;
    Seconds now = 0;

    /// Returns what a kernel gets done.
    Seconds pass(bool busy) {
      const bool held = busy && mean >= device.limit_watts;
      const double watts = held ? device.limit_watts : busy ? device.full_watts : device.idle_watts;
      mean += (watts - mean) * kTick / device.window;
      joules += watts * kTick;
      now += kTick;
      return kTick * (held ? device.slowest() : 1);
    }
  };
};

}  // namespace athanor::test
