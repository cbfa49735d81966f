// SPDX-License-Identifier: Apache-2.0
// RMS norm (Zhang and Sennrich 2019), and in backward the addition of the residual's gradient. A
// block of threads holds whole rows, so every matrix is read and written once.
#include "executor/cuda/kernels/column_sums.cuh"
#include "executor/cuda/kernels/fused_kernels.hpp"
#include "executor/cuda/kernels/norm_rows.cuh"

namespace athanor::cuda {
namespace {

template <typename Value>
struct Forward {
  const Value *x, *weight;
  float epsilon;
  Value* normal;
  float* inverse_rms;
};

template <typename Value, int kVectors>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_kernel(Forward<Value> f, std::int64_t columns) {
  __shared__ float shared[kMostWarps];
  const std::int64_t row = blockIdx.x * columns;
  Row<kVectors> values;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (column_of(i) >= columns) continue;
    values[i] = unpack(load(f.x + row + column_of(i)));
#pragma unroll
    for (int j = 0; j < kVec8; ++j) squares = fmaf(values[i].at[j], values[i].at[j], squares);
  }
  const float scale = rsqrtf(block_sum(squares, shared) / static_cast<float>(columns) + f.epsilon);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t column = column_of(i);
    if (column >= columns) continue;
    const Vec8 weights = unpack(load(f.weight + column));
#pragma unroll
    for (int j = 0; j < kVec8; ++j) values[i].at[j] *= scale * weights.at[j];
    store(f.normal + row + column, pack<Value>(values[i]));
  }
  if (threadIdx.x == 0) f.inverse_rms[blockIdx.x] = scale;
}

template <typename Value>
struct Backward {
  const Value *grad_normal, *grad_residual, *x, *weight;
  const float* inverse_rms;
  Value* grad_x;
};

/// A thread's part of one row, as loaded.
template <typename Value, int kVectors>
struct LoadedRow {
  Packed<Value> gradient[kVectors], x[kVectors], residual[kVectors];
  float scale;
};

template <typename Value, int kVectors>
__device__ __forceinline__ void load_row(const Backward<Value>& b, std::int64_t row, Shape shape,
                                         LoadedRow<Value, kVectors>& loaded) {
  if (row >= shape.rows) return;
  loaded.scale = b.inverse_rms[row];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t column = column_of(i);
    if (column >= shape.columns) continue;
    loaded.gradient[i] = load(b.grad_normal + row * shape.columns + column);
    loaded.x[i] = load(b.x + row * shape.columns + column);
    if (b.grad_residual == nullptr) continue;
    loaded.residual[i] = load(b.grad_residual + row * shape.columns + column);
  }
}

/// Computes grad_x = scale * (gradient - normal * mean(gradient * normal)) + residual, where
/// gradient is that of the row divided by its root mean square. Adds the weight's gradient to
/// `sums`.
template <typename Value, int kVectors>
__device__ __forceinline__ void differentiate_row(const Backward<Value>& b, std::int64_t row,
                                                  std::int64_t columns,
                                                  const LoadedRow<Value, kVectors>& loaded,
                                                  const Packed<Value>* weights, float* shared,
                                                  Row<kVectors>& sums) {
  Row<kVectors> gradient, normal;
  float product = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (column_of(i) >= columns) continue;
    gradient[i] = unpack(loaded.gradient[i]);
    normal[i] = unpack(loaded.x[i]);
    const Vec8 weight = unpack(weights[i]);
#pragma unroll
    for (int j = 0; j < kVec8; ++j) {
      float& g = gradient[i].at[j];
      float& n = normal[i].at[j];
      n *= loaded.scale;
      sums[i].at[j] = fmaf(g, n, sums[i].at[j]);
      g *= weight.at[j];
      product = fmaf(g, n, product);
    }
  }
  const float mean = block_sum(product, shared) / static_cast<float>(columns);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t column = column_of(i);
    if (column >= columns) continue;
    Vec8 residual{};
    if (b.grad_residual != nullptr) residual = unpack(loaded.residual[i]);
#pragma unroll
    for (int j = 0; j < kVec8; ++j) {
      const float across = fmaf(-normal[i].at[j], mean, gradient[i].at[j]);
      residual.at[j] = fmaf(loaded.scale, across, residual.at[j]);
    }
    store(b.grad_x + row * columns + column, pack<Value>(residual));
  }
}

template <typename Value, int kVectors>
__global__ void __launch_bounds__(kBackwardThreads, kBlocksAtOnce<kVectors>)
    rms_norm_backward_kernel(Backward<Value> b, Shape shape, float* partials) {
  // Two buffers alternate, so that one __syncthreads() a row suffices.
  __shared__ float shared[2][kMostWarps];
  Packed<Value> weights[kVectors];
  Row<kVectors> sums{};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (column_of(i) < shape.columns) weights[i] = load(b.weight + column_of(i));
  }
  LoadedRow<Value, kVectors> current{}, next{};
  if constexpr (kLoadsAhead<kVectors>) load_row(b, blockIdx.x, shape, next);
  int buffer = 0;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    if constexpr (kLoadsAhead<kVectors>) {
      current = next;
      load_row(b, row + gridDim.x, shape, next);
    } else {
      load_row(b, row, shape, current);
    }
    differentiate_row<Value, kVectors>(b, row, shape.columns, current, weights, shared[buffer],
                                       sums);
    buffer = 1 - buffer;
  }
  write_sums<kVectors>(sums, shape.columns, 0, partials);
}

template <typename Value>
void launch_forward(cudaStream_t stream, const RmsNorm& a, Shape shape) {
  const Forward<Value> forward{static_cast<const Value*>(a.x), static_cast<const Value*>(a.weight),
                               a.epsilon, static_cast<Value*>(a.normal), a.inverse_rms};
  with_width(shape.columns, kMostThreads, [&](auto width) {
    constexpr int kVectors = decltype(width)::value;
    rms_norm_kernel<Value, kVectors>
        <<<static_cast<unsigned>(shape.rows), threads_for(shape.columns, kVectors), 0, stream>>>(
            forward, shape.columns);
  });
}

template <typename Value>
void launch_backward(cudaStream_t stream, const RmsNormBackward& a, Shape shape, int blocks,
                     float* partials) {
  const auto as = [](const void* values) { return static_cast<const Value*>(values); };
  const Backward<Value> backward{as(a.grad_normal), as(a.grad_residual),
                                 as(a.x),           as(a.weight),
                                 a.inverse_rms,     static_cast<Value*>(a.grad_x)};
  with_width(shape.columns, kBackwardThreads, [&](auto width) {
    constexpr int kVectors = decltype(width)::value;
    rms_norm_backward_kernel<Value, kVectors>
        <<<blocks, threads_for(shape.columns, kVectors), 0, stream>>>(backward, shape, partials);
  });
  launch_add_partials<Value>(stream, partials, blocks, shape.columns,
                             {{a.grad_weight, nullptr, nullptr}}, 1);
}

}  // namespace

void launch_rms_norm(cudaStream_t stream, Element element, const RmsNorm& arguments, Shape shape) {
  if (shape.rows == 0) return;
  if (element == Element::BFloat16) {
    launch_forward<__nv_bfloat16>(stream, arguments, shape);
  } else {
    launch_forward<float>(stream, arguments, shape);
  }
}

void launch_rms_norm_backward(cudaStream_t stream, Element element,
                              const RmsNormBackward& arguments, Shape shape, int blocks,
                              float* partials) {
  if (element == Element::BFloat16) {
    launch_backward<__nv_bfloat16>(stream, arguments, shape, blocks, partials);
  } else {
    launch_backward<float>(stream, arguments, shape, blocks, partials);
  }
}

}  // namespace athanor::cuda
