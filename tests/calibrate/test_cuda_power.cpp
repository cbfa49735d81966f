// SPDX-License-Identifier: Apache-2.0
// The power model of a fake GPU.
#include "calibrate/machine/cuda_power.hpp"
#include "sim/base/errors.hpp"
#include "tests/calibrate/slowing_calibrator.hpp"
#include "tests/calibrate/throttled_device.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <chrono>
#include <optional>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

/// Simulates bursts of products in no time; everything else draws the limit's power.
class ThrottledCalibrator final : public test::SlowingCalibrator {
 public:
  test::ThrottledDevice device;

  [[nodiscard]] std::optional<double> joules(int) override {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    return device.sustained_watts() * now.count();
  }
  [[nodiscard]] KernelBursts matmul_bursts(int, std::int64_t, Seconds on, Seconds off,
                                           Seconds seconds) override {
    return device.bursts(on, off, seconds);
  }
};

constexpr PowerMeasurementOptions kQuick{.bursts = 0.6, .sustained = 1, .lane = 0.05};

}  // namespace

TEST_CASE("quick measurements give the power model of the device that was measured") {
  constexpr std::int64_t kSize = 8192;
  ThrottledCalibrator cuda;
  const PowerMeasurements measured = measure_bursts(cuda, kSize, kQuick);
  const PowerModel model = power_of_products(measured, kSize);
  const PowerFitErrors errors = fit_errors(model, measured);
  CHECK_THAT(model.idle_watts, WithinRel(cuda.device.idle_watts, 1e-3));
  CHECK_THAT(model.matmul_watts, WithinRel(cuda.device.unthrottled_watts, 1e-3));
  CHECK_THAT(model.matmul_flops_per_second,
             WithinRel(2.0 * kSize * kSize * kSize / cuda.device.kernel, 1e-3));
  CHECK_THAT(model.exponent, WithinRel(cuda.device.exponent, 0.01));
  REQUIRE(model.limits.size() == 1);
  const auto& limit = cuda.device.limits.front();
  CHECK_THAT(model.limits.front().watts, WithinRel(limit.watts, 0.01));
  CHECK_THAT(model.limits.front().window, WithinRel(limit.window, 0.05));
  CHECK(errors.seconds < 0.005);
  CHECK(errors.watts < 0.005);
}

TEST_CASE("a lane adds its power draw above idle, which is never negative") {
  ThrottledCalibrator cuda;
  const double above_idle = cuda.device.sustained_watts() - cuda.device.idle_watts;
  for (const auto& [lane, watts] :
       measure_lane_watts(cuda, 2, kMiB, kQuick, cuda.device.idle_watts)) {
    CHECK_THAT(watts, WithinRel(above_idle, 0.01));
  }
  CHECK(measure_lane_watts(cuda, 2, kMiB, kQuick, 1e4).at(Lane::H2D) == 0);
}

}  // namespace athanor
