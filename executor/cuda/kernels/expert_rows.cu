// SPDX-License-Identifier: Apache-2.0
// Rows of a mixture of experts. A row is a pair (token, choice), sorted by expert; where a token's
// rows lie is an inverse permutation. Every element is written once, so nothing needs atomics.
#include "executor/cuda/kernels/activations.cuh"
#include "executor/cuda/kernels/column_pass.cuh"
#include "executor/cuda/kernels/norm_rows.cuh"

#include <algorithm>

namespace athanor::cuda {
namespace {

constexpr int kInverseThreads = 256;
constexpr int kMostRowThreads = 256;
constexpr int kAtOnce = 4;  // rows of a token that a thread loads before it adds

/// Threads for rows of `columns`: whole warps, a vector each where they suffice.
unsigned row_threads(std::int64_t columns) {
  const std::int64_t vectors = (columns + kVec8 - 1) / kVec8;
  const std::int64_t warps = (vectors + kWarp - 1) / kWarp;
  return static_cast<unsigned>(std::min<std::int64_t>(warps * kWarp, kMostRowThreads));
}

__global__ void __launch_bounds__(kInverseThreads)
    inverse_kernel(const std::int64_t* permutation, std::int64_t count, std::int64_t* inverse) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kInverseThreads + threadIdx.x;
  if (i < count) inverse[permutation[i]] = i;
}

/// A block reads a token once and writes all its rows.
template <typename Value>
__global__ void __launch_bounds__(kMostRowThreads)
    rows_of_tokens_kernel(const Value* x, const std::int64_t* rows, int choices,
                          std::int64_t columns, Value* to) {
  const std::int64_t token = blockIdx.x;
  for (std::int64_t column = threadIdx.x * kVec8; column < columns;
       column += static_cast<std::int64_t>(blockDim.x) * kVec8) {
    const Packed<Value> values = load(x + token * columns + column);
    for (int i = 0; i < choices; ++i)
      store(to + rows[token * choices + i] * columns + column, values);
  }
}

template <typename Value>
__device__ __forceinline__ float weight_at(const Value* weights, std::int64_t i) {
  return weights == nullptr ? 1.0F : static_cast<float>(weights[i]);
}

/// A block sums a token's rows in the order of its choices.
template <typename Value>
__global__ void __launch_bounds__(kMostRowThreads)
    sum_rows_kernel(const Value* x, const std::int64_t* rows, int choices, const Value* weights,
                    std::int64_t columns, Value* sums) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * choices;
  for (std::int64_t column = threadIdx.x * kVec8; column < columns;
       column += static_cast<std::int64_t>(blockDim.x) * kVec8) {
    Vec8 sum{};
    for (int base = 0; base < choices; base += kAtOnce) {
      Packed<Value> loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (base + i < choices) loaded[i] = load(x + rows[first + base + i] * columns + column);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (base + i >= choices) break;
        const float weight = weight_at(weights, first + base + i);
        const Vec8 row = unpack(loaded[i]);
        for (int j = 0; j < kVec8; ++j) sum.at[j] = fmaf(weight, row.at[j], sum.at[j]);
      }
    }
    store(sums + blockIdx.x * columns + column, pack<Value>(sum));
  }
}

/// A block takes a row and replaces its grad_y, the gradient of y / weight, by y.
template <typename Value, ActivationFunction kActivation>
__global__ void __launch_bounds__(kMostRowThreads)
    weighted_gate_backward_kernel(WeightedGateBackward a, std::int64_t columns) {
  __shared__ float shared[kMostWarps];
  const std::int64_t pair = a.pairs[blockIdx.x];
  const float weight = weight_at(static_cast<const Value*>(a.weights), pair);
  Value* const grad_y = static_cast<Value*>(a.grad_y) + blockIdx.x * columns;
  const Value* const packed = static_cast<const Value*>(a.packed) + blockIdx.x * 2 * columns;
  Value* const grad_packed = static_cast<Value*>(a.grad_packed) + blockIdx.x * 2 * columns;
  float products = 0.0F;
  for (std::int64_t column = threadIdx.x * kVec8; column < columns;
       column += static_cast<std::int64_t>(blockDim.x) * kVec8) {
    const Vec8 gradient = unpack(load(grad_y + column));
    Vec8 gate = unpack(load(packed + column)), up = unpack(load(packed + columns + column)), y;
    for (int j = 0; j < kVec8; ++j) {
      const Curve at_gate = curve<kActivation>(gate.at[j]);
      const float value = at_gate.value * up.at[j], scaled = weight * gradient.at[j];
      products = fmaf(value, gradient.at[j], products);
      y.at[j] = weight * value;
      gate.at[j] = scaled * up.at[j] * at_gate.slope;
      up.at[j] = scaled * at_gate.value;
    }
    store(grad_y + column, pack<Value>(y));
    store(grad_packed + column, pack<Value>(gate));
    store(grad_packed + columns + column, pack<Value>(up));
  }
  products = block_sum(products, shared);
  if (threadIdx.x == 0) a.grad_weights[pair] = products;
}

}  // namespace

void launch_inverse_permutation(cudaStream_t stream, const std::int64_t* permutation,
                                std::int64_t count, std::int64_t* inverse) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kInverseThreads - 1) / kInverseThreads);
  inverse_kernel<<<blocks, kInverseThreads, 0, stream>>>(permutation, count, inverse);
}

void launch_rows_of_tokens(cudaStream_t stream, Element element, const void* x, Shape tokens,
                           const std::int64_t* rows, int choices, void* to) {
  if (tokens.rows == 0) return;
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    rows_of_tokens_kernel<<<static_cast<unsigned>(tokens.rows), row_threads(tokens.columns), 0,
                            stream>>>(as<Value>(x), rows, choices, tokens.columns, as<Value>(to));
  });
}

void launch_sum_rows(cudaStream_t stream, Element element, const void* x, const std::int64_t* rows,
                     int choices, const void* weights, Shape tokens, void* sums) {
  if (tokens.rows == 0) return;
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    sum_rows_kernel<<<static_cast<unsigned>(tokens.rows), row_threads(tokens.columns), 0, stream>>>(
        as<Value>(x), rows, choices, as<Value>(weights), tokens.columns, as<Value>(sums));
  });
}

void launch_weighted_gate_backward(cudaStream_t stream, Element element,
                                   ActivationFunction activation,
                                   const WeightedGateBackward& arguments, Shape shape) {
  if (shape.rows == 0) return;
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    with_activation(activation, [&](auto kind) {
      weighted_gate_backward_kernel<Value, decltype(kind)::value>
          <<<static_cast<unsigned>(shape.rows), row_threads(shape.columns), 0, stream>>>(
              arguments, shape.columns);
    });
  });
}

}  // namespace athanor::cuda
