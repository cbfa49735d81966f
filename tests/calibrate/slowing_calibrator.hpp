// SPDX-License-Identifier: Apache-2.0
// Fake GPUs.
#pragma once

#include "calibrate/bench/measure.hpp"
#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/kernels/kernel_trace.hpp"
#include "calibrate/profile/unit_meter.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace athanor::test {

/// Claims that every measurement takes longer than the one before, by a fiftieth of the first.
class SlowingActivity final : public DeviceActivity {
 public:
  explicit SlowingActivity(std::atomic<int>& measurements) : measurements_(measurements) {}
  void run(const SampleSink& sink) override {
    constexpr Seconds kFirst = 1e-3;
    const Seconds seconds = kFirst * (1 + measurements_++ / 50.0);
    while (sink(seconds)) sleep_for(kFirst);
  }

 private:
  std::atomic<int>& measurements_;
};

/// GPUs whose activities do not contend, on a machine that gets slower all the time.
class SlowingCalibrator : public CudaCalibrator {
 public:
  static constexpr Seconds kIssue = 7e-6;
  std::optional<int> utilization_of_second;  ///< percent

  [[nodiscard]] int num_devices() const override { return 2; }
  [[nodiscard]] std::string device_name(int) const override { return "asleep"; }
  [[nodiscard]] Bytes device_memory(int) const override { return kGiB; }
  [[nodiscard]] std::map<std::string, std::string> versions() const override { return {}; }
  [[nodiscard]] std::optional<int> utilization(int device) override {
    return device == 1 ? utilization_of_second : std::nullopt;
  }
  [[nodiscard]] ActivityPtr matmul(int, std::int64_t) override { return slowing(); }
  [[nodiscard]] ActivityPtr copy_h2d(int, Bytes) override { return slowing(); }
  [[nodiscard]] ActivityPtr copy_d2h(int, Bytes) override { return slowing(); }
  [[nodiscard]] ActivityPtr add_d2h(int, Bytes) override { return slowing(); }
  [[nodiscard]] ActivityPtr adam(int, std::int64_t) override { return slowing(); }
  [[nodiscard]] ActivityPtr square_sum(int, std::int64_t) override { return slowing(); }
  [[nodiscard]] ActivityPtr collective(CollectiveKind, int, Bytes) override { return slowing(); }
  [[nodiscard]] std::map<Lane, Seconds> issue(int) override { return {{Lane::Compute, kIssue}}; }
  [[nodiscard]] std::optional<double> joules(int) override { return std::nullopt; }
  [[nodiscard]] KernelBursts matmul_bursts(int, std::int64_t, Seconds, Seconds, Seconds) override {
    return {};
  }
  [[nodiscard]] std::unique_ptr<UnitMeter> unit_meter(int) override { return nullptr; }
  [[nodiscard]] std::unique_ptr<KernelTracer> kernel_tracer() override { return nullptr; }

 private:
  [[nodiscard]] ActivityPtr slowing() { return std::make_unique<SlowingActivity>(measurements_); }

  std::atomic<int> measurements_ = 0;
};

}  // namespace athanor::test
