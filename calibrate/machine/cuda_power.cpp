// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/cuda_power.hpp"

#include "calibrate/power/energy_watch.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace athanor {
namespace {

/// Runs `activity` for twice `seconds`. Returns the mean power of the second half.
double watts_of(CudaCalibrator& cuda, DeviceActivity& activity, Seconds seconds) {
  const EnergyWatch energy([&cuda] { return cuda.joules(0); });
  const auto has_passed = [seconds](Moment since) {
    return seconds_between(since, Moment::clock::now()) >= seconds;
  };
  const Moment start = Moment::clock::now();
  std::optional<Moment> from, to;
  activity.run([&](Seconds) {
    if (!from && has_passed(start) && energy.has_changed_since(start)) from = Moment::clock::now();
    if (from && !to && has_passed(*from)) to = Moment::clock::now();
    return !to || !energy.has_changed_since(*to);
  });
  return energy.watts(from.value(), to.value());
}

}  // namespace

PowerMeasurements measure_bursts(CudaCalibrator& cuda, std::int64_t size,
                                 const PowerMeasurementOptions& options) {
  PowerMeasurements measured;
  measured.sustained = cuda.matmul_bursts(0, size, options.sustained, 0, options.sustained);
  // Bursts differ in their share of the time, and are shorter and longer than the averaging windows
  // of limits. With one share or one length, different limits would explain the same times: an
  // H100's bursts of at most a quarter of a second fit windows of 0.07 s and of 0.3 s.
  struct Pattern {
    Seconds on, off;
  };
  for (const auto [on, off] :
       {Pattern{0.045, 0.045}, {0.06, 0.18}, {0.16, 0.05}, {0.25, 0.65}, {0.5, 0.53}}) {
    constexpr double kBursts = 2.5;  // the third begins, and no fourth if a burst is a bit short
    const Seconds seconds = std::max(options.bursts, kBursts * (on + off));
    measured.bursts.push_back(cuda.matmul_bursts(0, size, on, off, seconds));
  }
  return measured;
}

PowerModel power_of_products(const PowerMeasurements& measured, std::int64_t size) {
  PowerModel model = fit_power(measured);
  const auto n = static_cast<double>(size);
  model.matmul_flops_per_second = 2 * n * n * n / unthrottled_seconds(measured);
  return model;
}

std::map<Lane, double> measure_lane_watts(CudaCalibrator& cuda, int num_devices, Bytes copy,
                                          const PowerMeasurementOptions& options,
                                          double idle_watts) {
  constexpr std::int64_t kElements = 1 << 26;
  std::map<Lane, double> watts;
  const auto add = [&](Lane lane, const ActivityPtr& activity) {
    watts[lane] = std::max(0.0, watts_of(cuda, *activity, options.lane) - idle_watts);
  };
  add(Lane::Compute, cuda.adam(0, kElements));
  add(Lane::Collective, cuda.collective(CollectiveKind::AllGather, num_devices, 4 * copy));
  add(Lane::H2D, cuda.copy_h2d(0, copy));
  add(Lane::D2H, cuda.copy_d2h(0, copy));
  return watts;
}

}  // namespace athanor
