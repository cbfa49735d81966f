// SPDX-License-Identifier: Apache-2.0
// The driver, its GPUs, and what calibrate and profile read from them.
#include "cli/doctor/checks.hpp"
#include "cli/doctor/kernel_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace athanor::cli {
namespace {

constexpr const char* kNoGpu = "no GPU, so none is needed";
constexpr int kLeastCuda = 13000;  // version that the CUDA backend is compiled with

/// Whether a display or compute device of NVIDIA is on the PCI bus.
bool has_nvidia_device(const Machine& machine) {
  for (const std::string& address : machine.names_in("/sys/bus/pci/devices")) {
    const std::string device = "/sys/bus/pci/devices/" + address;
    const bool is_nvidia = first_line(machine.text(device + "/vendor")) == "0x10de";
    if (is_nvidia && machine.text(device + "/class").starts_with("0x03")) return true;
  }
  return false;
}

std::string describe_gpus(const NvmlFacts& nvml) {
  std::map<std::string, int> kinds;
  for (const GpuFacts& gpu : nvml.gpus) {
    ++kinds[fmt::format("{} with {}", gpu.name, format_bytes(gpu.memory))];
  }
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

std::string describe_driver(const NvmlFacts& nvml) {
  return fmt::format("driver {} for CUDA {}.{}", nvml.driver, nvml.cuda / 1000,
                     nvml.cuda % 1000 / 10);
}

Finding lacks_driver(const Machine& machine) {
  Finding finding{"driver", Verdict::Costs, "", "training runs on the CPU", ""};
  if (machine.has("/proc/driver/nvidia/version")) {
    finding.found = "the driver's module is loaded, and its libraries are not here";
    finding.way_out =
        "In a container: docker run --gpus all, with the NVIDIA Container Toolkit on the host.";
  } else if (has_nvidia_device(machine)) {
    finding.found = "an NVIDIA device is on the bus, and no driver is installed";
    finding.way_out = "Install NVIDIA's driver 580 or newer.";
  } else {
    finding.found = "no NVIDIA GPU";
    finding.way_out =
        "To plan for another machine, tune with a file of platforms/: it needs no GPU here.";
  }
  return finding;
}

/// Whether the library can be opened by its name, or from a folder beside torch.
bool finds_cupti(const Machine& machine, const PythonFacts& python) {
  const std::string library = "libcupti.so.13";
  if (machine.open_library(library)) return true;
  return std::ranges::any_of(python.library_folders, [&](const std::string& folder) {
    return static_cast<bool>(machine.open_library(folder + "/" + library));
  });
}

bool restricts_profiling(const Machine& machine) {
  constexpr int kSysAdmin = 21;
  return field(machine.text("/proc/driver/nvidia/params"), "RmProfilingAdminOnly:") == "1" &&
         !has_capability(machine, kSysAdmin);
}

}  // namespace

Finding check_driver(const Machine& machine, const NvmlFacts& nvml) {
  if (!nvml.is_loaded) return lacks_driver(machine);
  Finding finding{"driver", Verdict::Costs, "", "training runs on the CPU", ""};
  if (nvml.error != 0) {
    finding.found = fmt::format("NVML does not start (code {})", nvml.error);
    finding.way_out = "nvidia-smi says why; after an update of the driver, restart the machine.";
  } else if (nvml.gpus.empty()) {
    finding.found = describe_driver(nvml) + ", and no GPU";
    finding.way_out = "In a container, pass the GPUs on: docker run --gpus all.";
  } else if (nvml.cuda < kLeastCuda) {
    finding.found = fmt::format("{}, {}", describe_driver(nvml), describe_gpus(nvml));
    finding.way_out = "Install NVIDIA's driver 580 or newer: athanor runs with CUDA 13.";
  } else {
    return {"driver", Verdict::Good,
            fmt::format("{}, {}", describe_driver(nvml), describe_gpus(nvml)), "", ""};
  }
  return finding;
}

Finding check_cuda_plugin(const Machine& machine, const NvmlFacts& nvml) {
  const std::string name = "cuda-backend";
  if (nvml.gpus.empty()) return {name, Verdict::Good, kNoGpu, "", ""};
  for (const char* folder : {"/", "/../bin/", "/../lib/"}) {
    if (std::filesystem::exists(machine.program_folder + folder + "libathanor-cuda.so")) {
      return {name, Verdict::Good, "libathanor-cuda.so is here", "", ""};
    }
  }
  return {name, Verdict::Costs, "libathanor-cuda.so is not here", "training runs on the CPU",
          "Build athanor where LibTorch with CUDA 13 and nvcc 13 are; cmake says what it lacks."};
}

Finding check_energy_counter(const NvmlFacts& nvml) {
  const std::string name = "energy-counter";
  if (nvml.gpus.empty()) return {name, Verdict::Good, kNoGpu, "", ""};
  const auto without = std::ranges::count(nvml.gpus, false, &GpuFacts::counts_energy);
  if (without == 0) return {name, Verdict::Good, "NVML counts the energy of every GPU", "", ""};
  return {name, Verdict::Costs, fmt::format("NVML counts no energy of {} GPUs", without),
          "calibrate measures no power, so predictions know no power limit",
          "Some virtual machines hide it: calibrate on the host, or take the error."};
}

Finding check_cupti(const Machine& machine, const NvmlFacts& nvml, const PythonFacts& python) {
  const std::string cost = "profile traces no kernels, so predictions scale whole phases";
  if (nvml.gpus.empty()) return {"cupti", Verdict::Good, kNoGpu, "", ""};
  if (!finds_cupti(machine, python)) {
    return {"cupti", Verdict::Costs, "libcupti.so.13 was not found", cost,
            "Install it (PyPI: nvidia-cuda-cupti), or set LD_LIBRARY_PATH to its folder."};
  }
  if (restricts_profiling(machine)) {
    return {"cupti", Verdict::Costs, "the driver lets administrators profile only",
            "where it refuses CUPTI, " + cost,
            "Profile as an administrator, or have the module option "
            "NVreg_RestrictProfilingToAdminUsers=0 set."};
  }
  return {"cupti", Verdict::Good, "libcupti.so.13, and leave to profile", "", ""};
}

Finding check_peers(const Machine& machine, const NvmlFacts& nvml) {
  const std::string cost = "NCCL goes through host memory between them, which is slower";
  const auto num_gpus = nvml.gpus.size();
  if (num_gpus < 2) return {"nccl-paths", Verdict::Good, "fewer than two GPUs", "", ""};
  if (machine.variable("NCCL_P2P_DISABLE") == "1") {
    return {"nccl-paths", Verdict::Costs, "NCCL_P2P_DISABLE=1", cost, "Unset NCCL_P2P_DISABLE."};
  }
  const auto num_pairs = num_gpus * (num_gpus - 1) / 2;
  if (nvml.pairs_without_access == 0) {
    return {"nccl-paths", Verdict::Good,
            fmt::format("{} of {} pairs of GPUs have direct access", num_pairs, num_pairs), "", ""};
  }
  return {"nccl-paths", Verdict::Costs,
          fmt::format("{} of {} pairs of GPUs have no direct access", nvml.pairs_without_access,
                      num_pairs),
          cost,
          "nvidia-smi topo -p2p r shows which; a hypervisor, an IOMMU or PCIe's access control "
          "forbids it."};
}

}  // namespace athanor::cli
