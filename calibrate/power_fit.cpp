// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power_fit.hpp"

#include "sim/model/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace athanor {
namespace {

using Kernel = KernelBursts::Kernel;

/// Speeds closer than this count as one: so much do they move by themselves.
constexpr double kSameSpeed = 0.02;
/// Kernels over which a speed is taken: a single one may be late.
constexpr std::size_t kAround = 5;

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

/// When kernels take longer than `seconds` from, at the earliest after `from`; the end of the ramp
/// if never.
Seconds slower_than(std::span<const Kernel> ramp, Seconds seconds, Seconds from) {
  for (std::size_t i = 0; i + kAround <= ramp.size(); ++i) {
    if (ramp[i].start >= from && median_seconds(ramp.subspan(i, kAround)) > seconds) {
      return ramp[i].start;
    }
  }
  return ramp.back().start;
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

void require_kernels(const KernelBursts& bursts) {
  constexpr std::size_t kFewest = 100;
  if (bursts.kernels.size() < kFewest) {
    throw Error(fmt::format("{} kernels tell too little of power", bursts.kernels.size()));
  }
}

}  // namespace

Seconds full_clock_seconds(const PowerMeasurements& measured) {
  // A kernel after a pause starts slowly, and no limit acts on the first hundredths of a second.
  constexpr Seconds kFrom = 0.005, kTo = 0.03;
  const Seconds first = median_seconds(between(measured.ramp.kernels, kFrom, kTo));
  const Seconds paused =
      std::min(median_seconds(measured.seldom.kernels), median_seconds(measured.often.kernels));
  return first > 0 ? std::min(first, paused) : paused;
}

Seconds settled_seconds(const KernelBursts& bursts) {
  constexpr double kLastPart = 0.75;
  const Seconds last = bursts.kernels.back().start;
  return median_seconds(between(bursts.kernels, kLastPart * last, last));
}

PowerModel fit_power(const PowerMeasurements& measured) {
  for (const auto* bursts : {&measured.seldom, &measured.often, &measured.ramp}) {
    require_kernels(*bursts);
  }
  const Line line = line_through(measured.seldom, measured.often);
  const std::span<const Kernel> ramp = measured.ramp.kernels;
  const Seconds full = full_clock_seconds(measured);
  const Seconds settled = settled_seconds(measured.ramp);
  const double settled_watts = std::min(measured.settled_watts, line.full);
  PowerModel model;
  model.idle_watts = line.idle;
  model.matmul_watts = line.full;
  if (settled < full * (1 + kSameSpeed) || settled_watts <= line.idle) {
    model.limits = {{std::max(line.full, measured.settled_watts), 0}};  // never reached
    return model;
  }
  model.exponent =
      std::log((line.full - line.idle) / (settled_watts - line.idle)) / std::log(settled / full);
  const Seconds first = slower_than(ramp, std::midpoint(full, settled), 0);
  constexpr Seconds kSettling = 0.01, kPlateau = 0.06;
  const Seconds plateau = median_seconds(between(ramp, first + kSettling, first + kPlateau));
  model.limits = {{settled_watts, first * (line.full - settled_watts)}};
  if (plateau <= 0 || settled < plateau * (1 + kSameSpeed)) return model;
  const double watts =
      line.idle + (line.full - line.idle) * std::pow(full / plateau, model.exponent);
  const Seconds second = slower_than(ramp, std::midpoint(plateau, settled), first);
  model.limits.front().burst_joules += (second - first) * (watts - settled_watts);
  model.limits.push_back({watts, first * (line.full - watts)});
  return model;
}

}  // namespace athanor
