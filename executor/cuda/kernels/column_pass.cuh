// SPDX-License-Identifier: Apache-2.0
// One pass over the rows of a matrix, a strip of columns a block, with sums over the rows where
// they are needed.
//
// Row functions of a pass say what it does: load_at() only reads, so that several rows are under
// way at once; take() writes results and returns the values that are summed over rows.
#pragma once

#include "executor/cuda/kernels/column_sums.cuh"
#include "executor/cuda/kernels/fused_kernels.hpp"

namespace athanor::cuda {

inline constexpr int kGroups = 8;             // rows that a block works on at once
inline constexpr int kUnrolled = 4;           // rows that a thread loads before it computes
inline constexpr int kStrip = kWarp * kVec8;  // columns of a block
inline constexpr std::int64_t kRowsPerBlock = 128;

/// For row functions that read columns where they are.
struct PlainColumn {};

template <typename Value>
struct PackedPair {
  Packed<Value> first, second;
};

/// Writes the block's sums of a strip of columns, one column a thread.
__device__ __forceinline__ void write_partials(const Vec8& sum, std::int64_t columns,
                                               float* partials) {
  __shared__ float shared[kGroups][kStrip];
  for (int j = 0; j < kVec8; ++j) shared[threadIdx.y][threadIdx.x * kVec8 + j] = sum.at[j];
  __syncthreads();
  const auto own = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  float total = shared[0][own];
  for (int group = 1; group < kGroups; ++group) total += shared[group][own];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kStrip + own;
  if (column < columns) partials[blockIdx.y * columns + column] = total;
}

template <typename Rows>
__global__ void __launch_bounds__(kWarp* kGroups)
    column_kernel(Rows rows, Shape shape, float* partials) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x) * kVec8;
  const std::int64_t begin = blockIdx.y * kRowsPerBlock;
  const std::int64_t end = begin + kRowsPerBlock < shape.rows ? begin + kRowsPerBlock : shape.rows;
  Vec8 sum{};
  const auto add = [&sum](const Vec8& values) {
    for (int j = 0; j < kVec8; ++j) sum.at[j] += values.at[j];
  };
  if (column < shape.columns) {
    const typename Rows::Column of_column = rows.column(column);
    std::int64_t row = begin + threadIdx.y;
    for (; row + (kUnrolled - 1) * kGroups < end; row += kUnrolled * kGroups) {
      typename Rows::Loaded loaded[kUnrolled];
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i)
        loaded[i] = rows.load_at(of_column, row + i * kGroups, column);
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i) {
        add(rows.take(loaded[i], of_column, row + i * kGroups, column));
      }
    }
    for (; row < end; row += kGroups) {
      add(rows.take(rows.load_at(of_column, row, column), of_column, row, column));
    }
  }
  if constexpr (Rows::kSums) write_partials(sum, shape.columns, partials);
}

/// Launches the pass and, where it sums, the addition of its partial sums, rounded to `Value`.
template <typename Value, typename Rows>
void launch_pass(cudaStream_t stream, const Rows& rows, Shape shape, float* partials, void* sums) {
  if (shape.columns == 0) return;
  const auto row_blocks = static_cast<unsigned>(column_partials(shape.rows));
  const dim3 blocks(static_cast<unsigned>((shape.columns + kStrip - 1) / kStrip), row_blocks);
  column_kernel<<<blocks, dim3(kWarp, kGroups), 0, stream>>>(rows, shape, partials);
  if constexpr (Rows::kSums) {
    launch_add_partials<Value>(stream, partials, static_cast<int>(row_blocks), shape.columns,
                               {{sums, nullptr, nullptr}}, 1);
  }
}

template <typename Value>
const Value* as(const void* values) {
  return static_cast<const Value*>(values);
}
template <typename Value>
Value* as(void* values) {
  return static_cast<Value*>(values);
}

/// Calls body with a value of the element's type.
template <typename Body>
void with_element(Element element, Body body) {
  if (element == Element::BFloat16) {
    body(__nv_bfloat16{});
  } else {
    body(float{});
  }
}

}  // namespace athanor::cuda
