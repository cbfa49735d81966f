// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/cuda_plugin.hpp"

#include "executor/rendezvous/mpi_launch.hpp"
#include "sim/base/errors.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace athanor {
namespace {

constexpr const char* kPlugin = "libathanor-cuda.so";
constexpr const char* kWayOut = "Use --backend cpu.";

struct Setting {
  const char* variable;
  const char* value;
};
constexpr std::array kSettings{
    // Activations of many sizes: segments that grow keep holes out of the memory limit.
    Setting{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
    // Without it cuBLAS may add in another order from run to run.
    Setting{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
    // Multicast over NVLink needs set-up that virtual machines often lack.
    Setting{"NCCL_NVLS_ENABLE", "0"},
    // A hardware queue for each stream: one that waits for the host holds up no other.
    Setting{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
};

/// Path of the plugin: beside the program in a build, in the library folder of an installation.
/// Empty where there is none.
std::string plugin_path() {
  const std::filesystem::path folder = std::filesystem::path(own_program()).parent_path();
  for (const auto& candidate : {folder / kPlugin, folder.parent_path() / "bin" / kPlugin,
                                folder.parent_path() / "lib" / kPlugin}) {
    if (std::filesystem::exists(candidate)) return candidate.string();
  }
  return {};
}

}  // namespace

std::string why_no_cuda() {
  if (plugin_path().empty()) {
    return std::string("this athanor was built without CUDA (there is no ") + kPlugin + ")";
  }
  // Through the driver alone: loading LibTorch's kernels would take seconds.
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "there is no NVIDIA driver (libcuda.so.1)";
  const auto initialize = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (initialize == nullptr || count == nullptr || initialize(0) != 0 || count(&devices) != 0 ||
      devices == 0) {
    return "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES may hide them)";
  }
  return {};
}

void* cuda_plugin_entry(const char* name) {
  const std::string problem = why_no_cuda();
  if (!problem.empty()) throw InputError("--backend cuda", problem, kWayOut);
  for (const Setting& setting : kSettings) ::setenv(setting.variable, setting.value, /*replace=*/0);
  // Never unloaded: LibTorch's kernels stay registered.
  void* const plugin = ::dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    throw InputError("--backend cuda", std::string("cannot load the CUDA backend: ") + ::dlerror(),
                     "Add the folders of LibTorch and CUDA 13 to LD_LIBRARY_PATH, or use "
                     "--backend cpu.");
  }
  void* const entry = ::dlsym(plugin, name);
  if (entry == nullptr) throw Error(plugin_path() + " has no " + name);
  return entry;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaRank& rank) {
  const auto make = reinterpret_cast<Backend* (*)(const CudaRank*)>(
      cuda_plugin_entry("athanor_make_cuda_backend"));
  return std::unique_ptr<Backend>(make(&rank));
}

}  // namespace athanor
