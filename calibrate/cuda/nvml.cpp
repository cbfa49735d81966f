// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/nvml.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace athanor {
namespace {

// Declared as in NVML's stable interface; its header is not part of every CUDA installation.
using Device = void*;
constexpr int kSuccess = 0;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;

/// Holds the library while it is needed.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    is_ready_ = library_ != nullptr && call<int()>("nvmlInit_v2");
  }
  ~Nvml() {
    if (is_ready_) static_cast<void>(call<int()>("nvmlShutdown"));
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }

  /// Calls a function. Returns whether it is there and succeeded.
  template <typename Function, typename... Arguments>
  [[nodiscard]] bool call(const char* name, Arguments... arguments) const {
    auto* const function = reinterpret_cast<Function*>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == kSuccess;
  }

 private:
  void* library_;
  bool is_ready_ = false;
};

/// Returns NVML's handle of a device. CUDA and NVML number devices differently; they agree on the
/// bus address.
Device device_of(const Nvml& nvml, int device) {
  std::array<char, 32> address{};
  Device handle = nullptr;
  if (cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device) !=
      cudaSuccess) {
    return nullptr;
  }
  const bool found = nvml.call<int(const char*, Device*)>(
      "nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(address.data()), &handle);
  return found ? handle : nullptr;
}

}  // namespace

class GpuCounters::Impl {
 public:
  explicit Impl(int device) : device_(nvml_.is_ready() ? device_of(nvml_, device) : nullptr) {}

  [[nodiscard]] std::optional<double> joules() const {
    constexpr double kMilli = 1e-3;
    unsigned long long millijoules = 0;
    if (device_ == nullptr) return std::nullopt;
    if (!nvml_.call<int(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption",
                                                      device_, &millijoules)) {
      return std::nullopt;
    }
    return kMilli * static_cast<double>(millijoules);
  }

  [[nodiscard]] std::optional<int> utilization() const {
    struct Utilization {
      unsigned gpu = 0, memory = 0;
    } utilization;
    if (device_ == nullptr) return std::nullopt;
    if (!nvml_.call<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates", device_,
                                               &utilization)) {
      return std::nullopt;
    }
    return static_cast<int>(utilization.gpu);
  }

 private:
  Nvml nvml_;
  Device device_;
};

GpuCounters::GpuCounters(int device) : impl_(std::make_unique<Impl>(device)) {}
GpuCounters::~GpuCounters() = default;

std::optional<double> GpuCounters::joules() const { return impl_->joules(); }

std::optional<int> GpuCounters::utilization() const { return impl_->utilization(); }

std::map<std::string, std::string> nvml_facts(int device) {
  std::map<std::string, std::string> facts;
  const Nvml nvml;
  if (!nvml.is_ready()) return facts;
  std::array<char, 96> driver{};
  if (nvml.call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", driver.data(),
                                      static_cast<unsigned>(driver.size()))) {
    facts["NVIDIA driver"] = driver.data();
  }
  const Device handle = device_of(nvml, device);
  if (handle == nullptr) return facts;
  unsigned value = 0;
  if (nvml.call<int(Device, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit", handle, &value)) {
    facts["GPU power limit"] = fmt::format("{} W", value / 1000);
  }
  for (const auto& [name, clock] : {std::pair("GPU SM clock limit", kClockSm),
                                    std::pair("GPU memory clock limit", kClockMemory)}) {
    if (nvml.call<int(Device, int, unsigned*)>("nvmlDeviceGetMaxClockInfo", handle, clock,
                                               &value)) {
      facts[name] = fmt::format("{} MHz", value);
    }
  }
  return facts;
}

}  // namespace athanor
