// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine as the calibrator sees them. Free of CUDA: the implementation is in the
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

enum class CollectiveKind { AllGather, ReduceScatter, AllReduce };

/// Activities run on random data and on streams of their own. Sizes are bytes of one repetition.
/// What fails in CUDA or NCCL throws; the message names the call.
class CudaCalibrator {
 public:
  virtual ~CudaCalibrator() = default;
  [[nodiscard]] virtual int num_devices() const = 0;
  [[nodiscard]] virtual std::string device_name(int device) const = 0;
  [[nodiscard]] virtual Bytes device_memory(int device) const = 0;
  /// Driver, CUDA, NCCL; clocks and power limit where NVML has them.
  [[nodiscard]] virtual std::map<std::string, std::string> versions() const = 0;

  /// A bf16 product of two matrices of size x size.
  [[nodiscard]] virtual ActivityPtr matmul(int device, std::int64_t size) = 0;
  /// One copy between pinned host memory and the device.
  [[nodiscard]] virtual ActivityPtr copy_h2d(int device, Bytes bytes) = 0;
  [[nodiscard]] virtual ActivityPtr copy_d2h(int device, Bytes bytes) = 0;
  /// bf16 gradients on the device, added to `bytes` of fp32 sums in pinned host memory.
  [[nodiscard]] virtual ActivityPtr add_d2h(int device, Bytes bytes) = 0;
  /// The executor's kernels: bf16 gradient, fp32 state, bf16 parameters.
  [[nodiscard]] virtual ActivityPtr adam(int device, std::int64_t elements) = 0;
  [[nodiscard]] virtual ActivityPtr square_sum(int device, std::int64_t elements) = 0;
  /// In place between the devices 0 .. num_devices - 1, with the copy between the own part and its
  /// home that the executor makes on the same lane. For one device only that copy is left.
  /// `bytes` of the whole buffer, a multiple of 256 times the devices.
  [[nodiscard]] virtual ActivityPtr collective(CollectiveKind kind, int num_devices,
                                               Bytes bytes) = 0;

  /// Median host time to put one operation on each of a GPU's lanes, as the executor does it; on
  /// the collective lane the call of NCCL between `num_devices` devices included.
  [[nodiscard]] virtual std::map<Lane, Seconds> issue(int num_devices) = 0;

  /// Energy that the device has taken, by its own counter; nothing where there is none. One
  /// other thread may ask while this one does something else.
  [[nodiscard]] virtual std::optional<double> joules(int device) = 0;
  /// bf16 products of size x size: bursts of `on` seconds with pauses of `off` (0: one burst from
  /// idle), for `seconds` in all, after some to settle.
  [[nodiscard]] virtual KernelBursts matmul_bursts(int device, std::int64_t size, Seconds on,
                                                   Seconds off, Seconds seconds) = 0;

  /// Times units and counts their memory on `device`.
  [[nodiscard]] virtual std::unique_ptr<UnitMeter> unit_meter(int device) = 0;

  /// CUPTI. Throws Error with the way out where it is not there.
  [[nodiscard]] virtual std::unique_ptr<KernelTracer> kernel_tracer() = 0;
};

/// What `--backend` asks for: auto takes the GPU where there is one. Throws InputError for a
/// backend that does not exist.
[[nodiscard]] bool uses_cuda(const std::string& backend);

/// WhichSamples the plugin. Throws InputError that says what is missing and the way out.
[[nodiscard]] std::unique_ptr<CudaCalibrator> load_cuda_calibrator();

}  // namespace athanor
