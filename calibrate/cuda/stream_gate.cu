// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/stream_gate.hpp"

namespace athanor::cuda {
namespace {

constexpr unsigned long long kPatience = 100'000'000;  // ns

__device__ __forceinline__ unsigned long long now() {
  unsigned long long nanoseconds = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void stream_gate_kernel(const volatile std::uint32_t* flag, std::uint32_t value) {
  const unsigned long long start = now();
  while (static_cast<std::int32_t>(*flag - value) < 0 && now() - start < kPatience) {
  }
}

}  // namespace

void launch_stream_gate(cudaStream_t stream, const volatile std::uint32_t* flag,
                        std::uint32_t value) {
  stream_gate_kernel<<<1, 1, 0, stream>>>(flag, value);
}

}  // namespace athanor::cuda
