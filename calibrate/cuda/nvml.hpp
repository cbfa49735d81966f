// SPDX-License-Identifier: Apache-2.0
// NVML, NVIDIA's management library. It is loaded at run time: the driver brings it, CUDA does not.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace athanor {

/// Returns driver version, power limit and clock limits of the device; empty without NVML.
[[nodiscard]] std::map<std::string, std::string> nvml_facts(int device);

/// Counters that NVML has of a device.
class GpuCounters {
 public:
  explicit GpuCounters(int device);
  ~GpuCounters();
  GpuCounters(const GpuCounters&) = delete;
  GpuCounters& operator=(const GpuCounters&) = delete;

  /// Returns Joules since the driver was loaded; nothing without NVML, or on a device without the
  /// counter.
  [[nodiscard]] std::optional<double> joules() const;
  /// Returns for what percentage of NVML's last sample period kernels ran on the device; nothing
  /// without NVML.
  [[nodiscard]] std::optional<int> utilization() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
