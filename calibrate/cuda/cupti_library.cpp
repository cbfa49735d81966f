// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/cupti_library.hpp"

#include "sim/base/errors.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace athanor {
namespace {

constexpr std::uint32_t kMajor = 10000;  // version 130001 is that of CUDA 13.0
/// Name of the library, as LibTorch itself links it.
constexpr const char* kLibrary = "libcupti.so.13";

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw Error(
        fmt::format("{} has no {}. Install the CUPTI of CUDA 13 (PyPI: "
                    "nvidia-cuda-cupti).",
                    kLibrary, name));
  }
}

}  // namespace

std::string cupti_way_out(CUptiResult error) {
  switch (error) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "Another profiler is attached (Nsight, torch.profiler, a monitoring daemon); run "
             "without it.";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "The driver lets administrators profile only: run as one, or have the module option "
             "NVreg_RestrictProfilingToAdminUsers=0 set.";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return "This kind of device cannot be traced; profile with --no-kernels.";
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_NOT_COMPATIBLE:
      return "CUPTI does not fit the driver: update the driver, or profile with --no-kernels.";
    default:
      return "Profile with --no-kernels.";
  }
}

CuptiLibrary::CuptiLibrary() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(
        fmt::format("CUPTI was not found ({}). Install it (PyPI: nvidia-cuda-cupti), or "
                    "set LD_LIBRARY_PATH to its folder.",
                    dlerror()));
  }
  find(library, "cuptiGetVersion", get_version);
  find(library, "cuptiGetResultString", get_result_string);
  find(library, "cuptiGetCallbackName", get_callback_name);
  find(library, "cuptiSubscribe", subscribe);
  find(library, "cuptiUnsubscribe", unsubscribe);
  find(library, "cuptiActivityRegisterCallbacks", register_callbacks);
  find(library, "cuptiActivityEnable", enable);
  find(library, "cuptiActivityDisable", disable);
  find(library, "cuptiActivityFlushAll", flush_all);
  find(library, "cuptiActivityGetNextRecord", get_next_record);
  find(library, "cuptiActivityGetNumDroppedRecords", get_num_dropped_records);
  find(library, "cuptiActivityPushExternalCorrelationId", push_origin);
  find(library, "cuptiActivityPopExternalCorrelationId", pop_origin);
  std::uint32_t version = 0;
  check(get_version(&version), "cuptiGetVersion");
  if (version / kMajor != CUPTI_API_VERSION / kMajor) {
    throw Error(
        fmt::format("CUPTI has version {}, and its records are read as of {}. Install the "
                    "CUPTI of CUDA 13 (PyPI: nvidia-cuda-cupti).",
                    version, CUPTI_API_VERSION));
  }
}

void CuptiLibrary::check(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  static_cast<void>(get_result_string(result, &text));
  throw Error(fmt::format("{}: {}. {}", call,
                          text != nullptr ? text : std::to_string(static_cast<int>(result)),
                          cupti_way_out(result)));
}

std::string CuptiLibrary::call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id) const {
  const char* name = nullptr;
  if (get_callback_name(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) {
    return std::to_string(id);
  }
  // "cudaLaunchKernel_v7000": the version is that of CUPTI's table.
  const std::string text = name;
  const std::size_t suffix = text.rfind("_v");
  const bool is_version = suffix != std::string::npos &&
                          text.find_first_not_of("0123456789", suffix + 2) == std::string::npos;
  return is_version && domain == CUPTI_CB_DOMAIN_RUNTIME_API ? text.substr(0, suffix) : text;
}

}  // namespace athanor
