// SPDX-License-Identifier: Apache-2.0
// Rows that blocks of threads hold whole: what the kernels of norms share.
#pragma once

#include "executor/cuda/kernels/vec8.cuh"

namespace athanor::cuda {

inline constexpr int kMostThreads = 512;
inline constexpr int kMostWarps = kMostThreads / kWarp;
/// Backward keeps its sums in registers: fewer threads, and two blocks a processor where a thread
/// has one vector. More vectors leave no registers for the next row.
inline constexpr int kBackwardThreads = 384;
template <int kVectors>
inline constexpr int kBlocksAtOnce = kVectors == 1 ? 2 : 1;
template <int kVectors>
inline constexpr bool kLoadsAhead = kVectors <= 2;

/// A thread's part of a row: as many vectors as a row takes to fit a block.
template <int kVectors>
using Row = Vec8[kVectors];

__device__ __forceinline__ std::int64_t column_of(int vector) {
  return (threadIdx.x + static_cast<std::int64_t>(vector) * blockDim.x) * kVec8;
}

/// Sums over a block, with the same bits in every thread. `shared` is kMostWarps elements that no
/// other call uses.
__device__ __forceinline__ float block_sum(float value, float* shared) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = shared[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) total += shared[warp];
  return total;
}

/// Writes a block's sums over its rows to row (which, blockIdx.x) of partials [.., gridDim.x,
/// columns].
template <int kVectors>
__device__ __forceinline__ void write_sums(const Row<kVectors>& sums, std::int64_t columns,
                                           int which, float* partials) {
  float* const to =
      partials + (static_cast<std::int64_t>(which) * gridDim.x + blockIdx.x) * columns;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (column_of(i) < columns) store(to + column_of(i), pack<float>(sums[i]));
  }
}

inline int threads_for(std::int64_t columns, int vectors) {
  const std::int64_t per_vector = (columns / kVec8 + vectors - 1) / vectors;
  return static_cast<int>((per_vector + kWarp - 1) / kWarp * kWarp);
}

template <int kVectors>
struct Width {
  static constexpr int value = kVectors;
};

/// Calls body with the vectors per thread that `columns` take.
template <typename Body>
void with_width(std::int64_t columns, int most_threads, Body body) {
  const std::int64_t vectors = (columns / kVec8 + most_threads - 1) / most_threads;
  if (vectors <= 1) return body(Width<1>{});
  if (vectors == 2) return body(Width<2>{});
  if (vectors == 3) return body(Width<3>{});
  return body(Width<4>{});
}

}  // namespace athanor::cuda
