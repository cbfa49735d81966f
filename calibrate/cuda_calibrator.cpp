// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda_calibrator.hpp"

#include "executor/lanes/mpi_launch.hpp"
#include "sim/model/errors.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace athanor {
namespace {

constexpr const char* kPlugin = "libathanor-cuda.so";
constexpr const char* kFactory = "athanor_make_cuda_calibrator";

/// Beside the program as it is built, or in the library folder beside it as it is installed.
std::string plugin_path() {
  const std::filesystem::path folder = std::filesystem::path(own_program()).parent_path();
  for (const auto& candidate : {folder / kPlugin, folder.parent_path() / "lib" / kPlugin}) {
    if (std::filesystem::exists(candidate)) return candidate.string();
  }
  return {};
}

/// Through the driver alone, which takes a fraction of what loading LibTorch's kernels takes.
CudaPresence devices_of_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {false, "there is no NVIDIA driver (libcuda.so.1)"};
  const auto initialize = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (initialize == nullptr || count == nullptr || initialize(0) != 0 || count(&devices) != 0 ||
      devices == 0) {
    return {false, "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES may hide them)"};
  }
  return {true, {}};
}

}  // namespace

CudaPresence cuda_presence() {
  if (plugin_path().empty()) {
    return {false, fmt::format("this athanor was built without CUDA (no {})", kPlugin)};
  }
  return devices_of_driver();
}

bool uses_cuda(const std::string& backend) {
  if (backend == "auto") return cuda_presence().present;
  if (backend == "cpu" || backend == "cuda") return backend == "cuda";
  throw InputError("--backend", "unknown backend '" + backend + "'", "Use auto, cpu or cuda.");
}

std::unique_ptr<CudaCalibrator> load_cuda_calibrator() {
  const CudaPresence presence = cuda_presence();
  if (!presence.present) throw InputError("--backend cuda", presence.reason, "Use --backend cpu.");
  // Never unloaded: LibTorch's kernels stay registered.
  void* plugin = dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    throw InputError("--backend cuda", fmt::format("cannot load the CUDA backend: {}", dlerror()),
                     "Add the folders of LibTorch and of CUDA 13 to LD_LIBRARY_PATH, or use "
                     "--backend cpu.");
  }
  const auto make = reinterpret_cast<CudaCalibrator* (*)()>(dlsym(plugin, kFactory));
  if (make == nullptr) throw Error(fmt::format("{} has no {}", plugin_path(), kFactory));
  return std::unique_ptr<CudaCalibrator>(make());
}

}  // namespace athanor
