// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power/throttled_kernels.hpp"

#include "sim/cost/device_power.hpp"
#include "sim/cost/power_draw.hpp"

#include <algorithm>

namespace athanor {
namespace {

/// Runs kernels on `device`. Returns the seconds that it took.
Seconds run(DevicePower& device, const PowerDraw& kernels) {
  device.start(Lane::Compute, kernels);
  Seconds taken = 0;
  for (Seconds left = kernels.seconds; left > 0;) {
    const double speed = device.speed();
    const Seconds needed = left / speed;
    const Seconds step = std::min(needed, device.until_change());
    device.pass(step);
    taken += step;
    left = step == needed ? 0 : left - step * speed;
  }
  device.stop(Lane::Compute);
  return taken;
}

}  // namespace

ThrottledKernels::ThrottledKernels(std::span<const KernelBursts::Kernel> kernels,
                                   Seconds first_pause, Seconds unthrottled) {
  Seconds ended = kernels.front().start - first_pause;
  for (const KernelBursts::Kernel& kernel : kernels) {
    add(kernel, kernel.start - ended, unthrottled);
    ended = kernel.start + kernel.seconds;
  }
}

void ThrottledKernels::add(const KernelBursts::Kernel& kernel, Seconds pause, Seconds unthrottled) {
  if (bursts_.empty() || pause > unthrottled) {
    bursts_.push_back({pause, unthrottled, true});
    return;
  }
  if (bursts_.back().is_first) bursts_.emplace_back();
  bursts_.back().seconds += unthrottled;
  measured.counted += kernel.seconds;
}

ThrottledKernels::Totals ThrottledKernels::simulate(const PowerModel& model) const {
  const double watts = model.matmul_watts - model.idle_watts;
  DevicePower device(model);
  Totals totals;
  for (int round = 0; round < 2; ++round) {  // budgets settle in the first round
    totals = {};
    Seconds all = 0;
    const double before = device.joules();
    for (const Burst& burst : bursts_) {
      device.pass(burst.pause);
      const Seconds taken = run(device, {burst.seconds, watts, model.exponent});
      all += burst.pause + taken;
      if (!burst.is_first) totals.counted += taken;
    }
    totals.watts = (device.joules() - before) / all;
  }
  return totals;
}

}  // namespace athanor
