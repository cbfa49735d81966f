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

/// Largest error of a model with one limit that needs no second one.
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

/// Power draw of bursts.
struct BurstDraw {
  std::span<const Kernel> kernels;
  double running_share = 0, watts = 0;

  /// Mean power draw of kernels as fast as these, as a share of the draw of unthrottled kernels.
  [[nodiscard]] double share(Seconds unthrottled, double exponent) const {
    Seconds running = 0;
    double energy = 0;
    for (const Kernel& kernel : kernels) {
      running += kernel.seconds;
      energy += kernel.seconds * std::pow(std::min(1.0, unthrottled / kernel.seconds), exponent);
    }
    return energy / running * running_share;
  }
};

std::vector<BurstDraw> burst_draws(const PowerMeasurements& measured) {
  std::vector<BurstDraw> draws;
  for (const KernelBursts& bursts : measured.bursts) {
    draws.push_back({bursts.kernels, bursts.running_share, bursts.watts});
  }
  draws.push_back({second_half(measured.sustained.kernels), 1, measured.sustained.watts});
  return draws;
}

/// Fits a line by least squares of the relative errors.
Line line_through(const std::vector<BurstDraw>& draws, Seconds unthrottled, double exponent) {
  double weights = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const BurstDraw& each : draws) {
    const double weight = 1 / (each.watts * each.watts);
    const double share = each.share(unthrottled, exponent);
    weights += weight;
    x += weight * share;
    y += weight * each.watts;
    xx += weight * share * share;
    xy += weight * share * each.watts;
  }
  const double slope = (weights * xy - x * y) / (weights * xx - x * x);
  return {(y - slope * x) / weights, slope};
}

/// Fits a model without limits. Its exponent is 0 for a device that never slows down.
PowerModel fit_watts(const PowerMeasurements& measured, Seconds unthrottled) {
  constexpr double kLeast = 0.5, kMost = 6;
  const std::vector<BurstDraw> draws = burst_draws(measured);
  PowerModel model;
  if (median_seconds(draws.back().kernels) > unthrottled * (1 + kSameSpeed)) {
    model.exponent = minimize({kLeast}, {kMost}, [&](const Point& exponent) {
      const Line line = line_through(draws, unthrottled, exponent[0]);
      double squares = 0;
      for (const BurstDraw& each : draws) {
        const double watts = line.at_zero + line.slope * each.share(unthrottled, exponent[0]);
        squares += std::pow(watts / each.watts - 1, 2);
      }
      return squares;
    })[0];
  }
  const Line line = line_through(draws, unthrottled, model.exponent);
  if (!(line.slope > 0) || !(line.at_zero >= 0)) {
    const BurstDraw &first = draws.front(), &last = draws.back();
    throw Error(
        fmt::format("power did not grow with load: {:.0f} W with kernels {:.0f} % of the "
                    "time, {:.0f} W under sustained load",
                    first.watts, 100 * first.running_share, last.watts));
  }
  model.idle_watts = line.at_zero;
  model.matmul_watts = line.at_zero + line.slope;
  return model;
}

/// Returns the relative error of the kernels' time under `model`.
double relative_error(const PowerModel& model, const ThrottledKernels& kernels) {
  return kernels.simulate(model).counted / kernels.measured.counted - 1;
}

Seconds pause_after(const KernelBursts& bursts) {
  Seconds running = 0;
  for (const Kernel& kernel : bursts.kernels) running += kernel.seconds;
  const Kernel& last = bursts.kernels.back();
  return std::max(0.0, running / bursts.running_share - last.start - last.seconds);
}

std::vector<ThrottledKernels> throttled_kernels(const PowerMeasurements& measured,
                                                Seconds unthrottled) {
  std::vector<ThrottledKernels> throttled;
  for (const KernelBursts& bursts : measured.bursts) {
    throttled.emplace_back(bursts.kernels, pause_after(bursts), unthrottled).measured.watts =
        bursts.watts;
  }
  // A pause after which the past no longer matters to any limit.
  constexpr Seconds kLong = 60;
  throttled.emplace_back(first_half(measured.sustained.kernels), kLong, unthrottled);
  return throttled;
}

PowerFitErrors errors_of(const PowerModel& model, const std::vector<ThrottledKernels>& throttled) {
  PowerFitErrors errors;
  for (const ThrottledKernels& kernels : throttled) {
    const auto [counted, watts] = kernels.simulate(model);
    const auto& measured = kernels.measured;
    errors.seconds = std::max(errors.seconds, std::abs(counted / measured.counted - 1));
    if (measured.watts <= 0) continue;
    errors.watts = std::max(errors.watts, std::abs(watts / measured.watts - 1));
  }
  return errors;
}

using LimitsOf = std::function<std::vector<PowerLimit>(const Point&)>;

/// Finds the limits, among those that `limits_of` can give, under which kernels take the measured
/// time.
std::vector<PowerLimit> best_limits(PowerModel model,
                                    const std::vector<ThrottledKernels>& throttled,
                                    const Point& low, const Point& high,
                                    const LimitsOf& limits_of) {
  const Point best = minimize(low, high, [&](const Point& x) {
    model.limits = limits_of(x);
    double squares = 0;
    for (const ThrottledKernels& kernels : throttled)
      squares += std::pow(relative_error(model, kernels), 2);
    return squares;
  });
  return limits_of(best);
}

/// Fits limits to a model that has none yet and settles at `settled_watts`.
std::vector<PowerLimit> fit_limits(PowerModel model, const std::vector<ThrottledKernels>& throttled,
                                   double settled_watts) {
  constexpr double kShortest = -3, kLongest = 1;  // averaging windows, as powers of ten seconds
  const auto settled = [&](double x) { return PowerLimit{settled_watts, std::pow(10, x)}; };
  model.limits = best_limits(model, throttled, {kShortest}, {kLongest},
                             [&](const Point& x) { return std::vector{settled(x[0])}; });
  if (errors_of(model, throttled).seconds <= kExplained) return model.limits;
  const double above = model.matmul_watts - settled_watts;
  return best_limits(
      model, throttled, {kShortest, kShortest, 0}, {kLongest, kLongest, 1}, [&](const Point& x) {
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
  // The first kernel after a pause starts slowly. No limit acts in the first hundredths of a
  // second.
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
  const Seconds unthrottled = unthrottled_seconds(measured);
  PowerModel model = fit_watts(measured, unthrottled);
  const double settled_watts = measured.sustained.watts;
  if (model.exponent == 0 || settled_watts <= model.idle_watts ||
      settled_watts >= model.matmul_watts) {
    model.exponent = 0;
    model.limits = {{std::max(model.matmul_watts, settled_watts), 0}};  // never reached
    return model;
  }
  model.limits = fit_limits(model, throttled_kernels(measured, unthrottled), settled_watts);
  return model;
}

PowerFitErrors fit_errors(const PowerModel& model, const PowerMeasurements& measured) {
  return errors_of(model, throttled_kernels(measured, unthrottled_seconds(measured)));
}

}  // namespace athanor
