// SPDX-License-Identifier: Apache-2.0
// Sums of squares in double-double. The number of elements fixes the tree of additions, so a sum
// has the same bits on every run. Its error (about 2^-100) is far below what a gradient norm in
// fp32 can show.
#include "executor/cuda/kernels/kernels.hpp"

#include <cuda_runtime.h>

namespace athanor::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ __forceinline__ double to_double(float value) { return value; }
__device__ __forceinline__ double to_double(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16U);
}

/// Adds by Knuth's two-sum, as ExactSum::add does.
__device__ __forceinline__ void add(DoubleDouble& sum, double value) {
  const double total = sum.high + value;
  const double rest = total - sum.high;
  sum.low += (sum.high - (total - rest)) + (value - rest);
  sum.high = total;
}

__device__ __forceinline__ void add(DoubleDouble& sum, const DoubleDouble& other) {
  add(sum, other.high);
  add(sum, other.low);
}

/// Returns the block's sum, valid in its first thread.
__device__ DoubleDouble block_sum(DoubleDouble sum) {
  __shared__ DoubleDouble of_warp[kThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    add(sum, DoubleDouble{__shfl_down_sync(kAllLanes, sum.high, step),
                          __shfl_down_sync(kAllLanes, sum.low, step)});
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / kWarp; ++warp) add(sum, of_warp[warp]);
  }
  return sum;
}

template <typename Value>
__global__ void __launch_bounds__(kThreads)
    square_sum_kernel(const Value* values, std::int64_t elements, DoubleDouble* partials) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  DoubleDouble sum{0, 0};
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < elements; i += stride) {
    const double value = to_double(values[i]);
    add(sum, value * value);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    add_partials_kernel(const DoubleDouble* partials, DoubleDouble* result) {
  DoubleDouble sum{0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < kSquareSumPartials; i += kThreads) {
    add(sum, partials[i]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

/// Adds a few hundred values in order, by the first thread. The block loads ahead of it.
__device__ DoubleDouble ordered_sum(const DoubleDouble* values, int count) {
  __shared__ DoubleDouble loaded[kThreads];
  DoubleDouble sum{0, 0};
  for (int base = 0; base < count; base += kThreads) {
    const int here = count - base < kThreads ? count - base : kThreads;
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < here) loaded[threadIdx.x] = values[base + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < here; ++i) add(sum, loaded[i]);
    }
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    sum_kernel(const DoubleDouble* values, int count, DoubleDouble* result) {
  const DoubleDouble total = ordered_sum(values, count);
  if (threadIdx.x == 0) *result = total;
}

__global__ void __launch_bounds__(kThreads)
    norm_kernel(const DoubleDouble* square_sums, int count, float limit, float epsilon, float* norm,
                float* scale) {
  const DoubleDouble total = ordered_sum(square_sums, count);
  if (threadIdx.x != 0) return;
  const auto root = static_cast<float>(sqrt(total.high + total.low));
  const float factor = limit / (root + epsilon);
  *norm = root;
  *scale = factor < 1.0F ? factor : 1.0F;
}

}  // namespace

void launch_square_sum(cudaStream_t stream, const void* values, bool values_are_bf16,
                       std::int64_t elements, DoubleDouble* partials, DoubleDouble* result) {
  if (values_are_bf16) {
    square_sum_kernel<<<kSquareSumPartials, kThreads, 0, stream>>>(
        static_cast<const std::uint16_t*>(values), elements, partials);
  } else {
    square_sum_kernel<<<kSquareSumPartials, kThreads, 0, stream>>>(
        static_cast<const float*>(values), elements, partials);
  }
  add_partials_kernel<<<1, kThreads, 0, stream>>>(partials, result);
}

void launch_sum(cudaStream_t stream, const DoubleDouble* values, int count, DoubleDouble* result) {
  sum_kernel<<<1, kThreads, 0, stream>>>(values, count, result);
}

void launch_norm(cudaStream_t stream, const DoubleDouble* square_sums, int count, float limit,
                 float epsilon, float* norm, float* scale) {
  norm_kernel<<<1, kThreads, 0, stream>>>(square_sums, count, limit, epsilon, norm, scale);
}

}  // namespace athanor::cuda
