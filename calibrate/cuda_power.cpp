// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda_power.hpp"

#include "calibrate/power_fit.hpp"
#include "sim/model/errors.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace athanor {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double joules_of(CudaCalibrator& cuda) {
  const std::optional<double> joules = cuda.joules(0);
  if (!joules) throw Error("NVML's energy counter has gone");
  return *joules;
}

/// Mean power between two moments.
class PowerInterval {
 public:
  explicit PowerInterval(CudaCalibrator& cuda) : cuda_(cuda), joules_(joules_of(cuda)) {}
  [[nodiscard]] Seconds seconds() const { return since(start_); }
  [[nodiscard]] double watts() const { return (joules_of(cuda_) - joules_) / seconds(); }

 private:
  CudaCalibrator& cuda_;
  double joules_;
  Clock::time_point start_ = Clock::now();
};

/// Mean power in the second half of twice `seconds` of `activity`.
double watts_of(CudaCalibrator& cuda, DeviceActivity& activity, Seconds seconds) {
  const Clock::time_point start = Clock::now();
  std::optional<PowerInterval> second_half;
  double watts = 0;
  activity.run([&](Seconds) {
    if (!second_half && since(start) >= seconds) second_half.emplace(cuda);
    if (!second_half || second_half->seconds() < seconds) return true;
    watts = second_half->watts();
    return false;
  });
  return watts;
}

}  // namespace

PowerModel measure_power_model(CudaCalibrator& cuda, std::int64_t size, const PowerExtent& extent) {
  // One product at a time, mean power far below a limit. Counters of energy look at a device for
  // some hundredths of a second now and then: each look must see many products and pauses.
  constexpr Seconds kOn = 1e-9, kSeldom = 0.003, kOften = 0.0012;
  PowerMeasurements measured;
  measured.seldom = cuda.matmul_bursts(0, size, kOn, kSeldom, extent.bursts);
  measured.often = cuda.matmul_bursts(0, size, kOn, kOften, extent.bursts);
  // Half of the time, in turns shorter and longer than what a limit looks at.
  for (const Seconds turn : {0.035, 0.08, 0.18}) {
    measured.limited.push_back(cuda.matmul_bursts(0, size, turn, turn, extent.bursts));
  }
  measured.sustained = cuda.matmul_bursts(0, size, extent.sustained, 0, extent.sustained);
  measured.settled_watts = watts_of(cuda, *cuda.matmul(0, size), extent.bursts);
  PowerModel model = fit_power(measured);
  const auto n = static_cast<double>(size);
  model.matmul_flops_per_second = 2 * n * n * n / full_clock_seconds(measured);
  return model;
}

std::map<Lane, double> measure_lane_watts(CudaCalibrator& cuda, int num_devices, Bytes copy,
                                          const PowerExtent& extent, double idle_watts) {
  constexpr std::int64_t kElements = 1 << 26;
  std::map<Lane, double> watts;
  const auto add = [&](Lane lane, const ActivityPtr& activity) {
    watts[lane] = std::max(0.0, watts_of(cuda, *activity, extent.lane) - idle_watts);
  };
  add(Lane::Compute, cuda.adam(0, kElements));
  add(Lane::Collective, cuda.collective(CollectiveKind::AllGather, num_devices, 4 * copy));
  add(Lane::H2D, cuda.copy_h2d(0, copy));
  add(Lane::D2H, cuda.copy_d2h(0, copy));
  return watts;
}

}  // namespace athanor
