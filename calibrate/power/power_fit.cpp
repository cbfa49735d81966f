// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power/power_fit.hpp"

#include "calibrate/bench/measure.hpp"
#include "calibrate/power/minimize.hpp"
#include "calibrate/power/throttled_kernels.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace athanor {
namespace {

using Kernel = KernelBursts::Kernel;

/// Bursts that one limit explains as well as this need no second one.
constexpr double kExplained = 0.005;

Seconds median_seconds(std::span<const Kernel> kernels) {
  Samples samples;
  for (const Kernel& kernel : kernels) samples.add(kernel.seconds);
  return samples.median();
}

std::span<const Kernel> between(std::span<const Kernel> kernels, Seconds from, Seconds to) {
  const auto starts_before = [](const Kernel& kernel, Seconds time) { return kernel.start < time; };
  const auto first = std::lower_bound(kernels.begin(), kernels.end(), from, starts_before);
  return {first, std::lower_bound(first, kernels.end(), to, starts_before)};
}

std::span<const Kernel> first_half(std::span<const Kernel> kernels) {
  return between(kernels, 0, kernels.back().start / 2);
}

std::span<const Kernel> second_half(std::span<const Kernel> kernels) {
  return kernels.subspan(first_half(kernels).size());
}

struct Line {
  double at_zero = 0, slope = 0;
};

/// What some bursts drew.
struct Drawn {
  std::span<const Kernel> kernels;
  double running_share = 0, watts = 0;

  /// Mean of what kernels as fast as these draw, as a share of what they do at full clock.
  [[nodiscard]] double load(Seconds full, double exponent) const {
    Seconds running = 0;
    double energy = 0;
    for (const Kernel& kernel : kernels) {
      running += kernel.seconds;
      energy += kernel.seconds * std::pow(std::min(1.0, full / kernel.seconds), exponent);
    }
    return energy / running * running_share;
  }
};

std::vector<Drawn> all_drawn(const PowerMeasurements& measured) {
  std::vector<Drawn> drawn;
  for (const KernelBursts& bursts : measured.bursts) {
    drawn.push_back({bursts.kernels, bursts.running_share, bursts.watts});
  }
  drawn.push_back({second_half(measured.sustained.kernels), 1, measured.sustained.watts});
  return drawn;
}

/// With least squares of the relative errors.
Line line_through(const std::vector<Drawn>& drawn, Seconds full, double exponent) {
  double weights = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Drawn& each : drawn) {
    const double weight = 1 / (each.watts * each.watts);
    const double load = each.load(full, exponent);
    weights += weight;
    x += weight * load;
    y += weight * each.watts;
    xx += weight * load * load;
    xy += weight * load * each.watts;
  }
  const double slope = (weights * xy - x * y) / (weights * xx - x * x);
  return {(y - slope * x) / weights, slope};
}

/// Without limits; exponent 0 for a device that never slows down.
PowerModel fit_watts(const PowerMeasurements& measured, Seconds full) {
  constexpr double kLeast = 0.5, kMost = 6;
  const std::vector<Drawn> drawn = all_drawn(measured);
  PowerModel model;
  if (median_seconds(drawn.back().kernels) > full * (1 + kSameSpeed)) {
    model.exponent = minimize({kLeast}, {kMost}, [&](const Point& exponent) {
      const Line line = line_through(drawn, full, exponent[0]);
      double squares = 0;
      for (const Drawn& each : drawn) {
        const double watts = line.at_zero + line.slope * each.load(full, exponent[0]);
        squares += std::pow(watts / each.watts - 1, 2);
      }
      return squares;
    })[0];
  }
  const Line line = line_through(drawn, full, model.exponent);
  if (!(line.slope > 0) || !(line.at_zero >= 0)) {
    const Drawn &first = drawn.front(), &last = drawn.back();
    throw Error(
        fmt::format("power did not grow with load: {:.0f} W with kernels {:.0f} % of the "
                    "time, {:.0f} W under sustained load",
                    first.watts, 100 * first.running_share, last.watts));
  }
  model.idle_watts = line.at_zero;
  model.matmul_watts = line.at_zero + line.slope;
  return model;
}

/// By how much kernels take longer under `model` than they did.
double excess(const PowerModel& model, const ThrottledKernels& kernels) {
  return kernels.simulate(model).counted / kernels.measured.counted - 1;
}

Seconds pause_after(const KernelBursts& bursts) {
  Seconds running = 0;
  for (const Kernel& kernel : bursts.kernels) running += kernel.seconds;
  const Kernel& last = bursts.kernels.back();
  return std::max(0.0, running / bursts.running_share - last.start - last.seconds);
}

std::vector<ThrottledKernels> throttled_kernels(const PowerMeasurements& measured, Seconds full) {
  std::vector<ThrottledKernels> limited;
  for (const KernelBursts& bursts : measured.bursts) {
    limited.emplace_back(bursts.kernels, pause_after(bursts), full).measured.watts = bursts.watts;
  }
  // A pause after which no limit knows of what was before.
  constexpr Seconds kLong = 60;
  limited.emplace_back(first_half(measured.sustained.kernels), kLong, full);
  return limited;
}

PowerFitErrors errors_of(const PowerModel& model, const std::vector<ThrottledKernels>& limited) {
  PowerFitErrors errors;
  for (const ThrottledKernels& kernels : limited) {
    const auto [counted, watts] = kernels.simulate(model);
    const auto& measured = kernels.measured;
    errors.seconds = std::max(errors.seconds, std::abs(counted / measured.counted - 1));
    if (measured.watts <= 0) continue;
    errors.watts = std::max(errors.watts, std::abs(watts / measured.watts - 1));
  }
  return errors;
}

using LimitsOf = std::function<std::vector<PowerLimit>(const Point&)>;

/// Of all that `limits_of` gives, those under which kernels take what they took.
std::vector<PowerLimit> best_limits(PowerModel model, const std::vector<ThrottledKernels>& limited,
                                    const Point& low, const Point& high,
                                    const LimitsOf& limits_of) {
  const Point best = minimize(low, high, [&](const Point& x) {
    model.limits = limits_of(x);
    double squares = 0;
    for (const ThrottledKernels& kernels : limited) squares += std::pow(excess(model, kernels), 2);
    return squares;
  });
  return limits_of(best);
}

/// `model` has no limits yet, and settles at `settled_watts`.
std::vector<PowerLimit> fit_limits(PowerModel model, const std::vector<ThrottledKernels>& limited,
                                   double settled_watts) {
  constexpr double kShortest = -3, kLongest = 1;  // windows, as powers of ten seconds
  const auto settled = [&](double x) { return PowerLimit{settled_watts, std::pow(10, x)}; };
  model.limits = best_limits(model, limited, {kShortest}, {kLongest},
                             [&](const Point& x) { return std::vector{settled(x[0])}; });
  if (errors_of(model, limited).seconds <= kExplained) return model.limits;
  const double above = model.matmul_watts - settled_watts;
  return best_limits(
      model, limited, {kShortest, kShortest, 0}, {kLongest, kLongest, 1}, [&](const Point& x) {
        return std::vector{settled(x[0]),
                           PowerLimit{settled_watts + x[2] * above, std::pow(10, x[1])}};
      });
}

void require_kernels(std::size_t number) {
  constexpr std::size_t kFewest = 100;
  if (number < kFewest) throw Error(fmt::format("{} kernels tell too little of power", number));
}

}  // namespace

Seconds unthrottled_seconds(const PowerMeasurements& measured) {
  // A kernel after a pause starts slowly, and no limit acts on the first hundredths of a second.
  constexpr Seconds kFrom = 0.005, kTo = 0.03;
  Seconds least = median_seconds(between(measured.sustained.kernels, kFrom, kTo));
  for (const KernelBursts& bursts : measured.bursts) {
    const Seconds paused = median_seconds(bursts.kernels);
    least = least > 0 ? std::min(least, paused) : paused;
  }
  return least;
}

PowerModel fit_power(const PowerMeasurements& measured) {
  std::size_t in_bursts = 0;
  for (const KernelBursts& bursts : measured.bursts) in_bursts += bursts.kernels.size();
  require_kernels(in_bursts);
  require_kernels(measured.sustained.kernels.size());
  const Seconds full = unthrottled_seconds(measured);
  PowerModel model = fit_watts(measured, full);
  const double settled_watts = measured.sustained.watts;
  if (model.exponent == 0 || settled_watts <= model.idle_watts ||
      settled_watts >= model.matmul_watts) {
    model.exponent = 0;
    model.limits = {{std::max(model.matmul_watts, settled_watts), 0}};  // never reached
    return model;
  }
  model.limits = fit_limits(model, throttled_kernels(measured, full), settled_watts);
  return model;
}

PowerFitErrors fit_errors(const PowerModel& model, const PowerMeasurements& measured) {
  return errors_of(model, throttled_kernels(measured, unthrottled_seconds(measured)));
}

}  // namespace athanor
