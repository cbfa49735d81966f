// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/nvml_facts.hpp"

#include <array>

namespace athanor::cli {
namespace {

// Declared as in NVML's stable interface; its header is not part of every CUDA installation.
using Device = void*;
struct DeviceMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
constexpr int kSuccess = 0;
constexpr int kFunctionNotFound = 13;
constexpr int kPeerRead = 0;  // NVML_P2P_CAPS_INDEX_READ

/// Calls a function of NVML. Returns its code.
template <typename Function, typename... Arguments>
int call(const Symbols& nvml, const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<Function*>(nvml(name));
  return function == nullptr ? kFunctionNotFound : function(arguments...);
}

std::vector<Device> devices_of(const Symbols& nvml) {
  unsigned count = 0;
  if (call<int(unsigned*)>(nvml, "nvmlDeviceGetCount_v2", &count) != kSuccess) return {};
  std::vector<Device> devices;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    const int code =
        call<int(unsigned, Device*)>(nvml, "nvmlDeviceGetHandleByIndex_v2", i, &device);
    if (code == kSuccess) devices.push_back(device);
  }
  return devices;
}

GpuFacts facts_of(const Symbols& nvml, Device device) {
  GpuFacts facts;
  std::array<char, 96> name{};
  if (call<int(Device, char*, unsigned)>(nvml, "nvmlDeviceGetName", device, name.data(),
                                         static_cast<unsigned>(name.size())) == kSuccess) {
    facts.name = name.data();
  }
  DeviceMemory memory;
  if (call<int(Device, DeviceMemory*)>(nvml, "nvmlDeviceGetMemoryInfo", device, &memory) ==
      kSuccess) {
    facts.memory = static_cast<Bytes>(memory.total);
  }
  unsigned long long millijoules = 0;
  facts.counts_energy =
      call<int(Device, unsigned long long*)>(nvml, "nvmlDeviceGetTotalEnergyConsumption", device,
                                             &millijoules) == kSuccess;
  return facts;
}

bool reads(const Symbols& nvml, Device from, Device other) {
  int status = -1;
  const int code = call<int(Device, Device, int, int*)>(nvml, "nvmlDeviceGetP2PStatus", from, other,
                                                        kPeerRead, &status);
  return code == kSuccess && status == kSuccess;
}

int pairs_without_access(const Symbols& nvml, const std::vector<Device>& devices) {
  int pairs = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = i + 1; j < devices.size(); ++j) {
      if (!reads(nvml, devices[i], devices[j]) || !reads(nvml, devices[j], devices[i])) ++pairs;
    }
  }
  return pairs;
}

}  // namespace

NvmlFacts ask_nvml(const Machine& machine) {
  NvmlFacts facts;
  const Symbols nvml = machine.open_library("libnvidia-ml.so.1");
  facts.is_loaded = static_cast<bool>(nvml);
  if (!nvml) return facts;
  facts.error = call<int()>(nvml, "nvmlInit_v2");
  if (facts.error != kSuccess) return facts;
  std::array<char, 96> driver{};
  if (call<int(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion", driver.data(),
                                 static_cast<unsigned>(driver.size())) == kSuccess) {
    facts.driver = driver.data();
  }
  int cuda = 0;
  if (call<int(int*)>(nvml, "nvmlSystemGetCudaDriverVersion_v2", &cuda) == kSuccess) {
    facts.cuda = cuda;
  }
  const std::vector<Device> devices = devices_of(nvml);
  for (Device device : devices) facts.gpus.push_back(facts_of(nvml, device));
  facts.pairs_without_access = pairs_without_access(nvml, devices);
  static_cast<void>(call<int()>(nvml, "nvmlShutdown"));
  return facts;
}

}  // namespace athanor::cli
