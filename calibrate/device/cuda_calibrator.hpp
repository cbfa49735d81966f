// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine, as the calibrator sees them. Free of CUDA: the implementation is in the
// plugin (calibrate/cuda), so one build serves machines with and without a GPU.
#pragma once

#include "calibrate/activities/device_activity.hpp"
#include "calibrate/power/power_fit.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace athanor {

class KernelTracer;
class UnitMeter;

enum class CollectiveKind { AllGather, ReduceScatter, AllReduce, AllToAll };

/// Activities run on random data and on streams of their own. Sizes are bytes of one repetition.
/// Throws if a call of CUDA or NCCL fails; the message names the call.
class CudaCalibrator {
 public:
  virtual ~CudaCalibrator() = default;
  [[nodiscard]] virtual int num_devices() const = 0;
  [[nodiscard]] virtual std::string device_name(int device) const = 0;
  [[nodiscard]] virtual Bytes device_memory(int device) const = 0;
  /// Returns versions of driver, CUDA and NCCL, and NVML's limits of clocks and power.
  [[nodiscard]] virtual std::map<std::string, std::string> versions() const = 0;

  /// Returns for what percentage of NVML's last sample period, up to a second, kernels of whatever
  /// process ran on the device; nothing without NVML.
  [[nodiscard]] virtual std::optional<int> utilization(int device) = 0;

  /// Multiplies two bf16 matrices of [size, size].
  [[nodiscard]] virtual ActivityPtr matmul(int device, std::int64_t size) = 0;
  /// Copies `bytes` between pinned host memory and the device.
  [[nodiscard]] virtual ActivityPtr copy_h2d(int device, Bytes bytes) = 0;
  [[nodiscard]] virtual ActivityPtr copy_d2h(int device, Bytes bytes) = 0;
  /// Adds bf16 gradients on the device to `bytes` of fp32 sums in pinned host memory.
  [[nodiscard]] virtual ActivityPtr add_d2h(int device, Bytes bytes) = 0;
  /// Runs the executor's kernels on bf16 gradients, fp32 state and bf16 parameters.
  [[nodiscard]] virtual ActivityPtr adam(int device, std::int64_t elements) = 0;
  [[nodiscard]] virtual ActivityPtr square_sum(int device, std::int64_t elements) = 0;
  /// Runs a collective in place between the devices 0 .. num_devices - 1, with the copy between the
  /// own part and its home, which the executor makes on the same lane. For one device only that
  /// copy is left. An all-to-all goes from one buffer to another. `bytes` is the size of the whole
  /// buffer, a multiple of 256 times the devices.
  [[nodiscard]] virtual ActivityPtr collective(CollectiveKind kind, int num_devices,
                                               Bytes bytes) = 0;

  /// Measures the median host time to put one operation on each of a GPU's lanes, as the executor
  /// does it. The collective lane's includes the call of NCCL between `num_devices` devices.
  [[nodiscard]] virtual std::map<Lane, Seconds> issue(int num_devices) = 0;

  /// Returns the energy that the device has taken, by its own counter; nothing if it has none. One
  /// other thread may call it at any time.
  [[nodiscard]] virtual std::optional<double> joules(int device) = 0;
  /// Runs bf16 products of [size, size] in bursts of `on` seconds with pauses of `off` seconds (0:
  /// one burst from idle), for `seconds` in all, after a settling time.
  [[nodiscard]] virtual KernelBursts matmul_bursts(int device, std::int64_t size, Seconds on,
                                                   Seconds off, Seconds seconds) = 0;

  /// Returns a meter of units' time and memory on `device`.
  [[nodiscard]] virtual std::unique_ptr<UnitMeter> unit_meter(int device) = 0;

  /// Returns a tracer by CUPTI. Throws Error that says what to do if there is no CUPTI.
  [[nodiscard]] virtual std::unique_ptr<KernelTracer> kernel_tracer() = 0;
};

/// Returns whether `backend`, the value of --backend, means GPUs; auto does if there is one. Throws
/// InputError for a backend that does not exist.
[[nodiscard]] bool uses_cuda(const std::string& backend);

/// Loads the plugin. Throws InputError that says what is missing and what to do.
[[nodiscard]] std::unique_ptr<CudaCalibrator> load_cuda_calibrator();

}  // namespace athanor
