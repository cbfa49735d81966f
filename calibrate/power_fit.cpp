// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power_fit.hpp"

#include "sim/model/device_power.hpp"
#include "sim/model/errors.hpp"
#include "sim/model/power.hpp"

#include <fmt/format.h>
#include <nlopt.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Kernel = KernelBursts::Kernel;

/// Speeds closer than this count as one: so much do they move by themselves.
constexpr double kSameSpeed = 0.02;
/// Bursts that one limit explains as well as this need no second one.
constexpr double kExplained = 0.005;

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

Seconds settled_seconds(const KernelBursts& sustained) {
  const Seconds last = sustained.kernels.back().start;
  return median_seconds(between(sustained.kernels, last / 2, last));
}

struct Line {
  double at_zero = 0, slope = 0;
};

/// Least squares.
Line line_through(const std::vector<double>& x, const std::vector<double>& y) {
  const auto mean = [](const std::vector<double>& values) {
    return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
  };
  const double mean_x = mean(x), mean_y = mean(y);
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    products += (x[i] - mean_x) * (y[i] - mean_y);
    squares += (x[i] - mean_x) * (x[i] - mean_x);
  }
  const double slope = products / squares;
  return {mean_y - slope * mean_x, slope};
}

/// Idle power, and above it that at full clock.
Line fit_watts(const std::vector<KernelBursts>& unlimited) {
  std::vector<double> shares, watts;
  for (const KernelBursts& bursts : unlimited) {
    shares.push_back(bursts.running_share);
    watts.push_back(bursts.watts);
  }
  const Line line = line_through(shares, watts);
  if (!(line.slope > 0) || !(line.at_zero >= 0)) {
    throw Error(
        fmt::format("power did not grow with load: {:.0f} W with kernels {:.0f} % of the "
                    "time, {:.0f} W with {:.0f} %",
                    watts.front(), 100 * shares.front(), watts.back(), 100 * shares.back()));
  }
  return line;
}

/// Kernels back to back.
struct Burst {
  Seconds pause = 0;      ///< before
  Seconds seconds = 0;    ///< at full clock
  bool is_first = false;  ///< the kernel after a pause, which starts slowly
};

/// What a model is held against.
class LimitedKernels {
 public:
  LimitedKernels(std::span<const Kernel> kernels, Seconds first_pause, Seconds full) {
    Seconds ended = kernels.front().start - first_pause;
    for (const Kernel& kernel : kernels) {
      add(kernel, kernel.start - ended, full);
      ended = kernel.start + kernel.seconds;
    }
  }

  std::vector<Burst> bursts;
  Seconds counted = 0;  ///< without first kernels
  double watts = 0;     ///< mean; 0: not known

 private:
  void add(const Kernel& kernel, Seconds pause, Seconds full) {
    if (bursts.empty() || pause > full) {
      bursts.push_back({pause, full, true});
      return;
    }
    if (bursts.back().is_first) bursts.emplace_back();
    bursts.back().seconds += full;
    counted += kernel.seconds;
  }
};

/// Returns how long it took.
Seconds run(DevicePower& device, const Draw& kernels) {
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

struct Simulated {
  Seconds counted = 0;
  double watts = 0;
};

/// With pauses as they were.
Simulated simulate(const PowerModel& model, const LimitedKernels& kernels) {
  DevicePower device(model);
  Simulated simulated;
  Seconds all = 0;
  double before = 0;
  for (int round = 0; round < 2; ++round) {  // in the first, budgets settle
    simulated.counted = all = 0;
    before = device.joules();
    for (const Burst& burst : kernels.bursts) {
      device.pass(burst.pause);
      const Seconds taken =
          run(device, {burst.seconds, model.matmul_watts - model.idle_watts, model.exponent});
      all += burst.pause + taken;
      if (!burst.is_first) simulated.counted += taken;
    }
  }
  simulated.watts = (device.joules() - before) / all;
  return simulated;
}

/// By how much kernels take longer under `model` than they did.
double excess(const PowerModel& model, const LimitedKernels& kernels) {
  return simulate(model, kernels).counted / kernels.counted - 1;
}

Seconds pause_after(const KernelBursts& bursts) {
  Seconds running = 0;
  for (const Kernel& kernel : bursts.kernels) running += kernel.seconds;
  const Kernel& last = bursts.kernels.back();
  return std::max(0.0, running / bursts.running_share - last.start - last.seconds);
}

std::vector<LimitedKernels> limited_kernels(const PowerMeasurements& measured, Seconds full) {
  std::vector<LimitedKernels> limited;
  for (const KernelBursts& bursts : measured.limited) {
    limited.emplace_back(bursts.kernels, pause_after(bursts), full).watts = bursts.watts;
  }
  // A pause after which no limit knows of what was before.
  constexpr Seconds kLong = 60;
  const std::vector<Kernel>& sustained = measured.sustained.kernels;
  limited.emplace_back(between(sustained, 0, sustained.back().start / 2), kLong, full);
  return limited;
}

PowerFitErrors errors_of(const PowerModel& model, const std::vector<LimitedKernels>& limited) {
  PowerFitErrors errors;
  for (const LimitedKernels& kernels : limited) {
    const Simulated simulated = simulate(model, kernels);
    errors.seconds = std::max(errors.seconds, std::abs(simulated.counted / kernels.counted - 1));
    if (kernels.watts <= 0) continue;
    errors.watts = std::max(errors.watts, std::abs(simulated.watts / kernels.watts - 1));
  }
  return errors;
}

using Point = std::vector<double>;

/// Where `cost` is least between `low` and `high`: by DIRECT, then by Nelder and Mead's method
/// (NLopt).
Point minimize(const Point& low, const Point& high, std::function<double(const Point&)> cost) {
  constexpr int kGlobal = 1000, kLocal = 5000;
  constexpr double kSame = 1e-4;
  Point best(low.size());
  std::ranges::transform(low, high, best.begin(), [](double a, double b) { return (a + b) / 2; });
  for (const auto& [algorithm, evaluations] :
       {std::pair(nlopt::GN_DIRECT_L, kGlobal), std::pair(nlopt::LN_NELDERMEAD, kLocal)}) {
    nlopt::opt search(algorithm, static_cast<unsigned>(low.size()));
    search.set_lower_bounds(low);
    search.set_upper_bounds(high);
    search.set_maxeval(evaluations);
    search.set_xtol_abs(kSame);
    search.set_min_objective(
        [](const Point& x, Point&, void* data) {
          return (*static_cast<std::function<double(const Point&)>*>(data))(x);
        },
        &cost);
    double least = 0;
    search.optimize(best, least);
  }
  return best;
}

using LimitsOf = std::function<std::vector<PowerLimit>(const Point&)>;

/// Of all that `limits_of` gives, those under which kernels take what they took.
std::vector<PowerLimit> best_limits(PowerModel model, const std::vector<LimitedKernels>& limited,
                                    const Point& low, const Point& high,
                                    const LimitsOf& limits_of) {
  const Point best = minimize(low, high, [&](const Point& x) {
    model.limits = limits_of(x);
    double squares = 0;
    for (const LimitedKernels& kernels : limited) squares += std::pow(excess(model, kernels), 2);
    return squares;
  });
  return limits_of(best);
}

/// `model` has no limits yet, and settles at `settled_watts`.
std::vector<PowerLimit> fit_limits(PowerModel model, const std::vector<LimitedKernels>& limited,
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

void require_kernels(const std::vector<KernelBursts>& bursts) {
  std::size_t number = 0;
  for (const KernelBursts& each : bursts) number += each.kernels.size();
  require_kernels(number);
}

}  // namespace

Seconds full_clock_seconds(const PowerMeasurements& measured) {
  // A kernel after a pause starts slowly, and no limit acts on the first hundredths of a second.
  constexpr Seconds kFrom = 0.005, kTo = 0.03;
  Seconds least = median_seconds(between(measured.sustained.kernels, kFrom, kTo));
  for (const KernelBursts& bursts : measured.unlimited) {
    const Seconds paused = median_seconds(bursts.kernels);
    least = least > 0 ? std::min(least, paused) : paused;
  }
  return least;
}

PowerModel fit_power(const PowerMeasurements& measured) {
  require_kernels(measured.unlimited);
  require_kernels(measured.limited);
  require_kernels(measured.sustained.kernels.size());
  const Seconds full = full_clock_seconds(measured);
  const Seconds settled = settled_seconds(measured.sustained);
  const double settled_watts = measured.sustained.watts;
  const Line line = fit_watts(measured.unlimited);
  PowerModel model;
  model.idle_watts = line.at_zero;
  model.matmul_watts = line.at_zero + line.slope;
  if (settled <= full * (1 + kSameSpeed) || settled_watts <= model.idle_watts ||
      settled_watts >= model.matmul_watts) {
    model.limits = {{std::max(model.matmul_watts, settled_watts), 0}};  // never reached
    return model;
  }
  model.exponent =
      std::log(line.slope / (settled_watts - model.idle_watts)) / std::log(settled / full);
  model.limits = fit_limits(model, limited_kernels(measured, full), settled_watts);
  return model;
}

PowerFitErrors fit_errors(const PowerModel& model, const PowerMeasurements& measured) {
  return errors_of(model, limited_kernels(measured, full_clock_seconds(measured)));
}

}  // namespace athanor
