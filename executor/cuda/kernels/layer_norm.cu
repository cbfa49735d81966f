// SPDX-License-Identifier: Apache-2.0
// Layer norm fused with its neighbours in a block with residuals: the addition before it, and in
// backward the addition of the residual's gradient. A block of threads holds whole rows, so every
// matrix is read and written once.
#include "executor/cuda/kernels/column_sums.cuh"
#include "executor/cuda/kernels/fused_kernels.hpp"
#include "executor/cuda/kernels/norm_rows.cuh"

namespace athanor::cuda {
namespace {

template <typename Value>
struct Forward {
  const Value *a, *residual, *weight, *offset;
  float epsilon;
  Value *sum, *normal;
  float *mean, *inverse_deviation;
};

/// Returns, and stores, the rounded values whose norm is taken.
template <typename Value>
__device__ __forceinline__ Vec8 row_values(const Forward<Value>& f, std::int64_t row,
                                           std::int64_t column) {
  Vec8 values = unpack(load(f.residual + row + column));
  if (f.a == nullptr) return values;
  const Vec8 added = unpack(load(f.a + row + column));
#pragma unroll
  for (int j = 0; j < kVec8; ++j) values.at[j] += added.at[j];
  const Packed<Value> rounded = pack<Value>(values);
  store(f.sum + row + column, rounded);
  return unpack(rounded);
}

template <typename Value, int kVectors>
__global__ void __launch_bounds__(kMostThreads)
    add_layer_norm_kernel(Forward<Value> f, std::int64_t columns) {
  __shared__ float shared[2][kMostWarps];
  const std::int64_t row = blockIdx.x * columns;
  Row<kVectors> values;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (column_of(i) >= columns) continue;
    values[i] = row_values(f, row, column_of(i));
#pragma unroll
    for (int j = 0; j < kVec8; ++j) total += values[i].at[j];
  }
  const float mean = block_sum(total, shared[0]) / static_cast<float>(columns);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (column_of(i) >= columns) continue;
#pragma unroll
    for (int j = 0; j < kVec8; ++j) {
      values[i].at[j] -= mean;
      squares = fmaf(values[i].at[j], values[i].at[j], squares);
    }
  }
  const float variance = block_sum(squares, shared[1]) / static_cast<float>(columns);
  const float scale = rsqrtf(variance + f.epsilon);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t column = column_of(i);
    if (column >= columns) continue;
    const Vec8 weights = unpack(load(f.weight + column));
    const Vec8 offsets = unpack(load(f.offset + column));
#pragma unroll
    for (int j = 0; j < kVec8; ++j) {
      values[i].at[j] = fmaf(values[i].at[j] * scale, weights.at[j], offsets.at[j]);
    }
    store(f.normal + row + column, pack<Value>(values[i]));
  }
  if (threadIdx.x == 0) {
    f.mean[blockIdx.x] = mean;
    f.inverse_deviation[blockIdx.x] = scale;
  }
}

template <typename Value>
struct Backward {
  const Value *grad_normal, *grad_residual, *x, *weight;
  const float *mean, *inverse_deviation;
  Value* grad_x;
};

/// A thread's part of one row, as loaded.
template <typename Value, int kVectors>
struct LoadedRow {
  Packed<Value> gradient[kVectors], x[kVectors], residual[kVectors];
  float mean, scale;
};

template <typename Value, int kVectors>
__device__ __forceinline__ void load_row(const Backward<Value>& b, std::int64_t row, Shape shape,
                                         LoadedRow<Value, kVectors>& loaded) {
  if (row >= shape.rows) return;
  loaded.mean = b.mean[row];
  loaded.scale = b.inverse_deviation[row];
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

/// Means over a row of the scaled gradient, and of its product with the normalized x. They have the
/// same bits in every thread.
struct RowMeans {
  float gradient, product;
};

__device__ __forceinline__ RowMeans row_means(float gradient, float product, std::int64_t columns,
                                              float2* shared) {
  gradient = warp_sum(gradient);
  product = warp_sum(product);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = {gradient, product};
  __syncthreads();
  float2 total = shared[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) {
    total.x += shared[warp].x;
    total.y += shared[warp].y;
  }
  const auto count = static_cast<float>(columns);
  return {total.x / count, total.y / count};
}

/// Sums over the rows of a block: grad_weight, grad_offset and, with kBias, the sum of grad_x.
template <int kVectors, bool kBias>
struct Sums {
  Row<kVectors> weight, offset;
  Row<kBias ? kVectors : 1> bias;
};

template <typename Value, int kVectors, bool kBias>
__device__ __forceinline__ void differentiate_row(const Backward<Value>& b, std::int64_t row,
                                                  std::int64_t columns,
                                                  const LoadedRow<Value, kVectors>& loaded,
                                                  const Packed<Value>* weights, float2* shared,
                                                  Sums<kVectors, kBias>& sums) {
  Row<kVectors> gradient, normal;
  float gradient_sum = 0, product_sum = 0;
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
      n = (n - loaded.mean) * loaded.scale;
      sums.weight[i].at[j] = fmaf(g, n, sums.weight[i].at[j]);
      sums.offset[i].at[j] += g;
      g *= weight.at[j];
      gradient_sum += g;
      product_sum = fmaf(g, n, product_sum);
    }
  }
  const RowMeans means = row_means(gradient_sum, product_sum, columns, shared);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t column = column_of(i);
    if (column >= columns) continue;
    Vec8 residual{};
    if (b.grad_residual != nullptr) residual = unpack(loaded.residual[i]);
#pragma unroll
    for (int j = 0; j < kVec8; ++j) {
      const float centred =
          fmaf(-normal[i].at[j], means.product, gradient[i].at[j] - means.gradient);
      residual.at[j] = fmaf(loaded.scale, centred, residual.at[j]);
      if constexpr (kBias) sums.bias[i].at[j] += residual.at[j];
    }
    store(b.grad_x + row * columns + column, pack<Value>(residual));
  }
}

template <typename Value, int kVectors, bool kBias>
__global__ void __launch_bounds__(kBackwardThreads, kBlocksAtOnce<kVectors>)
    layer_norm_backward_kernel(Backward<Value> b, Shape shape, float* partials) {
  // Two buffers alternate, so that one __syncthreads() a row suffices.
  __shared__ float2 shared[2][kMostWarps];
  Packed<Value> weights[kVectors];
  Sums<kVectors, kBias> sums{};
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
    differentiate_row<Value, kVectors, kBias>(b, row, shape.columns, current, weights,
                                              shared[buffer], sums);
    buffer = 1 - buffer;
  }
  write_sums<kVectors>(sums.weight, shape.columns, 0, partials);
  write_sums<kVectors>(sums.offset, shape.columns, 1, partials);
  if constexpr (kBias) write_sums<kVectors>(sums.bias, shape.columns, 2, partials);
}

template <typename Value>
void launch_forward(cudaStream_t stream, const AddLayerNorm& a, Shape shape) {
  const auto as = [](const void* values) { return static_cast<const Value*>(values); };
  const Forward<Value> forward{as(a.a),
                               as(a.residual),
                               as(a.weight),
                               as(a.offset),
                               a.epsilon,
                               static_cast<Value*>(a.sum),
                               static_cast<Value*>(a.normal),
                               a.mean,
                               a.inverse_deviation};
  with_width(shape.columns, kMostThreads, [&](auto width) {
    constexpr int kVectors = decltype(width)::value;
    add_layer_norm_kernel<Value, kVectors>
        <<<static_cast<unsigned>(shape.rows), threads_for(shape.columns, kVectors), 0, stream>>>(
            forward, shape.columns);
  });
}

template <typename Value>
void launch_backward(cudaStream_t stream, const LayerNormBackward& a, Shape shape, int blocks,
                     float* partials) {
  const auto as = [](const void* values) { return static_cast<const Value*>(values); };
  const Backward<Value> backward{
      as(a.grad_normal),   as(a.grad_residual),          as(a.x), as(a.weight), a.mean,
      a.inverse_deviation, static_cast<Value*>(a.grad_x)};
  with_width(shape.columns, kBackwardThreads, [&](auto width) {
    constexpr int kVectors = decltype(width)::value;
    const int threads = threads_for(shape.columns, kVectors);
    if (a.grad_bias != nullptr) {
      layer_norm_backward_kernel<Value, kVectors, true>
          <<<blocks, threads, 0, stream>>>(backward, shape, partials);
    } else {
      layer_norm_backward_kernel<Value, kVectors, false>
          <<<blocks, threads, 0, stream>>>(backward, shape, partials);
    }
  });
  launch_add_partials<Value>(stream, partials, blocks, shape.columns,
                             {{a.grad_weight, a.grad_offset, a.grad_bias}},
                             a.grad_bias != nullptr ? 3 : 2);
}

}  // namespace

void launch_add_layer_norm(cudaStream_t stream, Element element, const AddLayerNorm& arguments,
                           Shape shape) {
  if (shape.rows == 0) return;
  if (element == Element::BFloat16) {
    launch_forward<__nv_bfloat16>(stream, arguments, shape);
  } else {
    launch_forward<float>(stream, arguments, shape);
  }
}

void launch_layer_norm_backward(cudaStream_t stream, Element element,
                                const LayerNormBackward& arguments, Shape shape, int blocks,
                                float* partials) {
  if (element == Element::BFloat16) {
    launch_backward<__nv_bfloat16>(stream, arguments, shape, blocks, partials);
  } else {
    launch_backward<float>(stream, arguments, shape, blocks, partials);
  }
}

}  // namespace athanor::cuda
