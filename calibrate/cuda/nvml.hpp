// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, loaded when it is there: the driver brings it, CUDA does not.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace athanor {

/// Driver version, power limit and clock limits of the device as found; empty without NVML.
[[nodiscard]] std::map<std::string, std::string> nvml_facts(int device);

/// The device's own energy counter.
class EnergyCounter {
 public:
  explicit EnergyCounter(int device);
  ~EnergyCounter();
  EnergyCounter(const EnergyCounter&) = delete;
  EnergyCounter& operator=(const EnergyCounter&) = delete;

  /// Since the driver was loaded; nothing without NVML or on a device without the counter.
  [[nodiscard]] std::optional<double> joules() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
