// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power_fit.hpp"

#include "sim/model/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace athanor {
namespace {

using Kernel = KernelBursts::Kernel;

/// Speeds closer than this count as one: so much do they move by themselves.
constexpr double kSameSpeed = 0.02;

Seconds median_seconds(std::span<const Kernel> kernels) {
  std::vector<Seconds> seconds;
  seconds.reserve(kernels.size());
  for (const Kernel& kernel : kernels) seconds.push_back(kernel.seconds);
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::span<const Kernel> between(std::span<const Kernel> kernels, Seconds from, Seconds to) {
  const auto starts_before = [](const Kernel& kernel, Seconds time) { return kernel.start < time; };
  const auto first = std::lower_bound(kernels.begin(), kernels.end(), from, starts_before);
  return {first, std::lower_bound(first, kernels.end(), to, starts_before)};
}

/// The kernels' time in the last quarter.
Seconds settled_seconds(const KernelBursts& bursts) {
  constexpr double kLastPart = 0.75;
  const Seconds last = bursts.kernels.back().start;
  return median_seconds(between(bursts.kernels, kLastPart * last, last));
}

/// Idle power and that at full clock.
struct Line {
  double idle = 0, full = 0;
};

Line line_through(const KernelBursts& seldom, const KernelBursts& often) {
  const double slope = (often.watts - seldom.watts) / (often.running_share - seldom.running_share);
  const double idle = seldom.watts - slope * seldom.running_share;
  if (!(slope > 0) || !(idle >= 0)) {
    throw Error(fmt::format(
        "power did not grow with load: {:.0f} W with kernels {:.0f} % of the time, {:.0f} W with "
        "{:.0f} %",
        seldom.watts, 100 * seldom.running_share, often.watts, 100 * often.running_share));
  }
  return {idle, idle + slope};
}

/// Equal kernels under one limit.
struct LimitedKernels {
  double draw = 0, limit = 0;     ///< watts above idle
  Seconds full = 0, settled = 0;  ///< of one kernel, at full clock and at the limit
};

/// How much longer `bursts` would have taken under a limit with `window`, pauses as they were. Not
/// counted: a first quarter, in which the mean settles, and the kernel after a pause, which starts
/// slowly.
Seconds excess_seconds(const KernelBursts& bursts, const LimitedKernels& of, Seconds window) {
  constexpr double kSettling = 0.25;
  const Seconds counted_from = kSettling * bursts.kernels.back().start;
  Seconds excess = 0;
  double mean = of.limit;
  Seconds ended = 0;
  for (const Kernel& kernel : bursts.kernels) {
    const Seconds pause = std::max(0.0, kernel.start - ended);
    ended = kernel.start + kernel.seconds;
    mean *= std::exp(-pause / window);
    const Seconds reached = window * std::log((of.draw - mean) / (of.draw - of.limit));
    const Seconds at_full = std::min(of.full, reached);
    mean = std::min(of.limit, of.draw - (of.draw - mean) * std::exp(-at_full / window));
    if (kernel.start < counted_from || pause > of.full) continue;
    excess += at_full + (of.full - at_full) * of.settled / of.full - kernel.seconds;
  }
  return excess;
}

/// The window under which `bursts` take what they took: the longer, the later the limit acts.
Seconds fit_window(const std::vector<KernelBursts>& bursts, const LimitedKernels& of) {
  constexpr int kHalvings = 50;
  Seconds low = 1e-3;
  Seconds high = 10;
  for (int i = 0; i < kHalvings; ++i) {
    const Seconds middle = std::sqrt(low * high);
    Seconds excess = 0;
    for (const KernelBursts& each : bursts) excess += excess_seconds(each, of, middle);
    (excess > 0 ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

void require_kernels(std::size_t number) {
  constexpr std::size_t kFewest = 100;
  if (number < kFewest) throw Error(fmt::format("{} kernels tell too little of power", number));
}

}  // namespace

Seconds full_clock_seconds(const PowerMeasurements& measured) {
  // A kernel after a pause starts slowly, and no limit acts on the first hundredths of a second.
  constexpr Seconds kFrom = 0.005, kTo = 0.03;
  const Seconds first = median_seconds(between(measured.sustained.kernels, kFrom, kTo));
  const Seconds paused =
      std::min(median_seconds(measured.seldom.kernels), median_seconds(measured.often.kernels));
  return first > 0 ? std::min(first, paused) : paused;
}

PowerModel fit_power(const PowerMeasurements& measured) {
  for (const auto* bursts : {&measured.seldom, &measured.often, &measured.sustained}) {
    require_kernels(bursts->kernels.size());
  }
  std::size_t limited = 0;
  for (const KernelBursts& bursts : measured.limited) limited += bursts.kernels.size();
  require_kernels(limited);
  const Line line = line_through(measured.seldom, measured.often);
  const Seconds full = full_clock_seconds(measured);
  const Seconds settled = settled_seconds(measured.sustained);
  const double settled_watts = std::min(measured.settled_watts, line.full);
  PowerModel model;
  model.idle_watts = line.idle;
  model.matmul_watts = line.full;
  if (settled < full * (1 + kSameSpeed) || settled_watts <= line.idle) {
    model.limits = {{std::max(line.full, measured.settled_watts), 0}};  // never reached
    return model;
  }
  const LimitedKernels kernels{line.full - line.idle, settled_watts - line.idle, full, settled};
  model.exponent = std::log(kernels.draw / kernels.limit) / std::log(settled / full);
  model.limits = {{settled_watts, fit_window(measured.limited, kernels)}};
  return model;
}

}  // namespace athanor
