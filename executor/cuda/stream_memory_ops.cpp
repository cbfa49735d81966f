// SPDX-License-Identifier: Apache-2.0
// The driver's functions are looked up, so that the plugin loads where there is no driver.
#include "executor/cuda/stream_memory_ops.hpp"

#include "executor/cuda/handles.hpp"

#include <cudaTypedefs.h>

#include <string>

namespace athanor::cuda {
namespace {

constexpr unsigned kVersion = 12000;  // whose signatures are those of the types used here

template <typename Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found),
        name);
  if (found != cudaDriverEntryPointSuccess) {
    throw Error(std::string("the NVIDIA driver has no ") + name +
                ". Install a driver for CUDA 13.");
  }
  return reinterpret_cast<Function>(function);
}

void check_driver(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  throw Error(std::string("CUDA driver: ") + what + ": error " + std::to_string(status));
}

CUdeviceptr address(const std::uint32_t* flag) { return reinterpret_cast<CUdeviceptr>(flag); }

}  // namespace

void stream_wait_at_least(cudaStream_t stream, std::uint32_t* flag, std::uint32_t value) {
  static const auto wait = driver_function<PFN_cuStreamWaitValue32_v11070>("cuStreamWaitValue32");
  check_driver(wait(stream, address(flag), value, CU_STREAM_WAIT_VALUE_GEQ),
               "let a stream wait for a flag");
}

void stream_write(cudaStream_t stream, std::uint32_t* flag, std::uint32_t value) {
  static const auto write =
      driver_function<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32");
  check_driver(write(stream, address(flag), value, CU_STREAM_WRITE_VALUE_DEFAULT),
               "let a stream set a flag");
}

}  // namespace athanor::cuda
