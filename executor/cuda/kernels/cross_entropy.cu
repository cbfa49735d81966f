// SPDX-License-Identifier: Apache-2.0
// Loss and gradient of a row of logits in two passes over it: the second finds it in the cache.
#include "executor/cuda/kernels/fused_kernels.hpp"
#include "executor/cuda/kernels/vec8.cuh"

#include <cmath>

namespace athanor::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;

/// The sum of exp(x - most) over some of a row, whose maximum is `most`.
struct SoftmaxSum {
  float most = -INFINITY;
  float sum = 0;
};

/// Merges two parts of a row. NaN reaches the sum, though maxima would hide it.
__device__ __forceinline__ SoftmaxSum merged(const SoftmaxSum& a, const SoftmaxSum& b) {
  const float most = fmaxf(a.most, b.most);
  if (most == -INFINITY) return {most, a.sum + b.sum};
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

/// Returns the block's sum, with the same bits in every thread.
__device__ SoftmaxSum block_softmax(SoftmaxSum own) {
  __shared__ SoftmaxSum of_warp[kWarps];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own = merged(own, {__shfl_xor_sync(kAllLanes, own.most, step),
                       __shfl_xor_sync(kAllLanes, own.sum, step)});
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = own;
  __syncthreads();
  SoftmaxSum total = of_warp[0];
  for (int warp = 1; warp < kWarps; ++warp) total = merged(total, of_warp[warp]);
  return total;
}

/// Number of columns in a thread's vector at `column`: 8, or fewer at the end.
__device__ __forceinline__ int width_at(std::int64_t column, std::int64_t columns) {
  return columns - column < kVec8 ? static_cast<int>(columns - column) : kVec8;
}

template <typename Value>
__device__ SoftmaxSum softmax_sum(const Value* row, std::int64_t columns) {
  SoftmaxSum own;
  for (std::int64_t column = threadIdx.x * kVec8; column < columns; column += kThreads * kVec8) {
    const Vec8 values = unpack(load(row + column));
    const int width = width_at(column, columns);
    SoftmaxSum here;
    for (int j = 0; j < kVec8; ++j) {
      if (j < width) here.most = fmaxf(here.most, values.at[j]);
    }
    for (int j = 0; j < kVec8; ++j) {
      if (j < width) here.sum += __expf(values.at[j] - here.most);
    }
    own = merged(own, here);
  }
  return block_softmax(own);
}

template <typename Value>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(Value* logits, std::int64_t columns, std::int64_t stride,
                         const std::int64_t* targets, bool with_gradients, float* losses) {
  Value* const row = logits + blockIdx.x * stride;
  const std::int64_t target = targets[blockIdx.x];
  const SoftmaxSum total = softmax_sum(row, columns);
  if (threadIdx.x == 0) {
    const bool known = target >= 0 && target < columns;
    const float score = known ? static_cast<float>(row[target]) : NAN;
    losses[blockIdx.x] = (total.most - score) + logf(total.sum);
  }
  if (!with_gradients) return;
  __syncthreads();  // the target's logit has been read
  const float scale = 1.0F / total.sum;
  for (std::int64_t column = threadIdx.x * kVec8; column < columns; column += kThreads * kVec8) {
    Vec8 values = unpack(load(row + column));
    const int width = width_at(column, columns);
    for (int j = 0; j < kVec8; ++j) {
      if (j >= width) continue;
      const float probability = __expf(values.at[j] - total.most) * scale;
      values.at[j] = probability - (column + j == target ? 1.0F : 0.0F);
    }
    store(row + column, pack<Value>(values));
  }
}

template <typename Value>
void launch(cudaStream_t stream, void* logits, Shape shape, std::int64_t stride,
            const std::int64_t* targets, bool with_gradients, float* losses) {
  cross_entropy_kernel<<<static_cast<unsigned>(shape.rows), kThreads, 0, stream>>>(
      static_cast<Value*>(logits), shape.columns, stride, targets, with_gradients, losses);
}

}  // namespace

void launch_cross_entropy(cudaStream_t stream, Element element, void* logits, Shape shape,
                          std::int64_t stride, const std::int64_t* targets, bool with_gradients,
                          float* losses) {
  if (shape.rows == 0) return;
  if (element == Element::BFloat16) {
    launch<__nv_bfloat16>(stream, logits, shape, stride, targets, with_gradients, losses);
  } else {
    launch<float>(stream, logits, shape, stride, targets, with_gradients, losses);
  }
}

}  // namespace athanor::cuda
