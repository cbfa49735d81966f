// SPDX-License-Identifier: Apache-2.0
#include "tests/doctor/fake_machine.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace athanor::test {
namespace {

// NVML's functions, with its own signatures.
int init() { return fake_nvml().init; }
int shut_down() { return 0; }
int driver_version(char* text, unsigned size) {
  std::strncpy(text, "580.95.05", size);
  return 0;
}
int cuda_version(int* version) {
  *version = fake_nvml().cuda;
  return 0;
}
int count(unsigned* num_gpus) {
  *num_gpus = fake_nvml().num_gpus;
  return 0;
}
int handle(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index) + 1);
  return 0;
}
int name(void* /*device*/, char* text, unsigned size) {
  std::strncpy(text, "NVIDIA H100", size);
  return 0;
}
int memory(void* /*device*/, unsigned long long* sizes) {
  sizes[0] = 80ULL << 30U;
  return 0;
}
int energy(void* /*device*/, unsigned long long* millijoules) {
  constexpr int kNotSupported = 3;
  *millijoules = 1;
  return fake_nvml().counts_energy ? 0 : kNotSupported;
}
int peers(void* /*from*/, void* /*other*/, int /*index*/, int* status) {
  *status = fake_nvml().peer_status;
  return 0;
}

}  // namespace

FakeNvml& fake_nvml() {
  static FakeNvml state;
  return state;
}

void* fake_nvml_symbol(const char* wanted) {
  const std::map<std::string, void*> symbols{
      {"nvmlInit_v2", reinterpret_cast<void*>(&init)},
      {"nvmlShutdown", reinterpret_cast<void*>(&shut_down)},
      {"nvmlSystemGetDriverVersion", reinterpret_cast<void*>(&driver_version)},
      {"nvmlSystemGetCudaDriverVersion_v2", reinterpret_cast<void*>(&cuda_version)},
      {"nvmlDeviceGetCount_v2", reinterpret_cast<void*>(&count)},
      {"nvmlDeviceGetHandleByIndex_v2", reinterpret_cast<void*>(&handle)},
      {"nvmlDeviceGetName", reinterpret_cast<void*>(&name)},
      {"nvmlDeviceGetMemoryInfo", reinterpret_cast<void*>(&memory)},
      {"nvmlDeviceGetTotalEnergyConsumption", reinterpret_cast<void*>(&energy)},
      {"nvmlDeviceGetP2PStatus", reinterpret_cast<void*>(&peers)}};
  const auto found = symbols.find(wanted);
  return found == symbols.end() ? nullptr : found->second;
}

FakeMachine::FakeMachine() {
  fake_nvml() = {};
  write("/proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1 kB\n");
  write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-15\n");
  write("/proc/self/limits",
        "Max locked memory         unlimited            unlimited     bytes\n");
  write("/proc/self/mountinfo",
        "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "30 23 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n");
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n");
  write("/sys/devices/system/cpu/online", "0-15\n");
  write("/sys/devices/system/node/node0/cpulist", "0-15\n");
  write("/sys/dev/block/259:2/uevent", "MAJOR=259\nDEVNAME=nvme0n1p2\n");
  write("/sys/dev/block/queue/rotational", "0\n");
  write("/dev/shm/.", "");
  for (const char* program :
       {"/bin/mpirun", "/bin/python3", "/athanor/athanor-sim", "/athanor/athanor-train",
        "/athanor/athanor-calibrate", "/athanor/libathanor-cuda.so"}) {
    write(program, "#!/bin/sh\n");
    std::filesystem::permissions(folder_.path().string() + program,
                                 std::filesystem::perms::owner_all);
    outputs[std::filesystem::path(program).filename()] = {0, "athanor 0.1.0\n"};
  }
  outputs["mpirun"] = {0, "mpirun (Open MPI) 4.1.4\n\nReport bugs\n"};
  outputs["python3"] = {0, R"({"version": "3.11.7", "torch": "2.11.0", "transformers": "5.0",)"
                           R"( "safetensors": "0.6", "folders": ["/site/nvidia/cu13/lib"]})"
                           "\n"};
  machine_.root = folder_.path().string();
  machine_.folder = "/home/me";
  machine_.program_folder = folder_.path().string() + "/athanor";
  machine_.environment.insert_or_assign("PATH", std::string("/nowhere:/bin"));
  machine_.open_library = [this](const std::string& library) -> cli::Symbols {
    if (!libraries.contains(library)) return {};
    return fake_nvml_symbol;
  };
  machine_.run = [this](const auto& words) -> std::optional<cli::ProgramOutput> {
    const auto found = outputs.find(std::filesystem::path(words.front()).filename());
    return found == outputs.end() ? std::nullopt : std::optional(found->second);
  };
  machine_.room = [](const std::string& path) -> std::optional<cli::Room> {
    if (path.starts_with("/home") || std::filesystem::exists(path)) {
      return cli::Room{64 * kGiB, 32 * kGiB};
    }
    return std::nullopt;
  };
  machine_.file_access = [](const std::string&) { return cli::FileAccess::Direct; };
}

void FakeMachine::write(const std::string& path, const std::string& text) const {
  const std::filesystem::path full = folder_.path().string() + path;
  std::filesystem::create_directories(full.parent_path());
  if (!path.ends_with("/.")) std::ofstream(full) << text;
}

void FakeMachine::remove(const std::string& path) const {
  std::filesystem::remove_all(folder_.path().string() + path);
}

cli::Finding FakeMachine::finding(const std::string& name) const {
  const cli::Findings findings = cli::examine(machine_);
  const auto found = std::ranges::find(findings, name, &cli::Finding::name);
  if (found == findings.end()) throw std::runtime_error("there is no finding " + name);
  return *found;
}

}  // namespace athanor::test
