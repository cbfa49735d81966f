// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix in two passes: blocks of rows, then the blocks. No atomics: the
// order of additions is fixed.
#pragma once

#include "executor/cuda/kernels/vec8.cuh"

namespace athanor::cuda {

inline constexpr int kPartialGroups = 8;
inline constexpr int kMostSums = 3;

struct SumPointers {
  void* at[kMostSums];
};

/// Computes sums.at[k][j] = sum over i of partials[k, i, j], with partials [.., count, columns].
template <typename Value>
__global__ void __launch_bounds__(kWarp* kPartialGroups)
    add_partials_kernel(const float* partials, int count, std::int64_t columns, SumPointers sums) {
  __shared__ float shared[kPartialGroups][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const float* const first = partials + static_cast<std::int64_t>(blockIdx.y) * count * columns;
  float sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < count; i += kPartialGroups) {
      sum += first[i * columns + column];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int group = 1; group < kPartialGroups; ++group) sum += shared[group][threadIdx.x];
  assign(static_cast<Value*>(sums.at[blockIdx.y])[column], sum);
}

/// Launches add_partials_kernel for `num_sums` sums at once.
template <typename Value>
void launch_add_partials(cudaStream_t stream, const float* partials, int count,
                         std::int64_t columns, const SumPointers& sums, int num_sums) {
  const dim3 blocks(static_cast<unsigned>((columns + kWarp - 1) / kWarp),
                    static_cast<unsigned>(num_sums));
  add_partials_kernel<Value>
      <<<blocks, dim3(kWarp, kPartialGroups), 0, stream>>>(partials, count, columns, sums);
}

}  // namespace athanor::cuda
