// SPDX-License-Identifier: Apache-2.0
// Element-wise passes over a matrix, with the sums over its rows where they are needed: gradients
// of activations and of biases.
#include "executor/cuda/kernels/column_sums.cuh"
#include "executor/cuda/kernels/fused_kernels.hpp"

namespace athanor::cuda {
namespace {

constexpr int kGroups = 8;             // rows that a block works on at once
constexpr int kUnrolled = 4;           // rows that a thread loads before it computes
constexpr int kStrip = kWarp * kVec8;  // columns of a block
constexpr std::int64_t kRowsPerBlock = 128;

/// Computes sigmoid(x). The fast exponential and division are good to a few 2^-23.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + __expf(-x)); }

/// An activation's value and slope at one point.
struct Curve {
  float value, slope;
};

/// Computes x * sigmoid(2 k (x + c x^3)), which is the tanh form.
__device__ __forceinline__ Curve gelu_tanh(float x) {
  constexpr float kTwice = 1.5957691216057308F;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const float square = x * x;
  const float gate = sigmoid(kTwice * x * fmaf(kCubic, square, 1.0F));
  const float inner = kTwice * fmaf(3.0F * kCubic, square, 1.0F);
  const float value = x * gate;
  return {value, fmaf(value * (1.0F - gate), inner, gate)};
}

__device__ __forceinline__ Curve gelu(float x) {
  constexpr float kInverseRoot = 0.70710678118654752F;    // 1 / sqrt(2)
  constexpr float kDensityAtZero = 0.39894228040143268F;  // 1 / sqrt(2 pi)
  const float gate = 0.5F * (1.0F + erff(x * kInverseRoot));
  return {x * gate, fmaf(x, kDensityAtZero * __expf(-0.5F * x * x), gate)};
}

__device__ __forceinline__ Curve silu(float x) {
  const float gate = sigmoid(x);
  return {x * gate, gate * fmaf(x, 1.0F - gate, 1.0F)};
}

template <ActivationFunction kActivation>
__device__ __forceinline__ Curve curve(float x) {
  if constexpr (kActivation == ActivationFunction::GeluTanh) return gelu_tanh(x);
  if constexpr (kActivation == ActivationFunction::Gelu) return gelu(x);
  if constexpr (kActivation == ActivationFunction::Silu) return silu(x);
  // As ATen: NaN goes through, and the slope at zero is zero.
  return {x <= 0.0F ? 0.0F : x, x <= 0.0F ? 0.0F : 1.0F};
}

// Row functions of a pass. load_at() only reads, so that several rows are under way at once; take()
// writes results and returns the values that are summed over rows.

template <typename Value>
struct SumRows {
  static constexpr bool kSums = true;
  using Loaded = Packed<Value>;
  struct Column {};
  const Value* x;
  std::int64_t columns;

  __device__ __forceinline__ Column column(std::int64_t) const { return {}; }
  __device__ __forceinline__ Loaded load_at(const Column&, std::int64_t row,
                                            std::int64_t column) const {
    return load(x + row * columns + column);
  }
  __device__ __forceinline__ Vec8 take(const Loaded& loaded, const Column&, std::int64_t,
                                       std::int64_t) const {
    return unpack(loaded);
  }
};

template <typename Value, ActivationFunction kActivation>
struct ActivateRows {
  static constexpr bool kSums = false;
  using Loaded = Packed<Value>;
  struct Column {};
  const Value* x;
  Value* y;
  std::int64_t columns;

  __device__ __forceinline__ Column column(std::int64_t) const { return {}; }
  __device__ __forceinline__ Loaded load_at(const Column&, std::int64_t row,
                                            std::int64_t column) const {
    return load(x + row * columns + column);
  }
  __device__ __forceinline__ Vec8 take(const Loaded& loaded, const Column&, std::int64_t row,
                                       std::int64_t column) const {
    Vec8 values = unpack(loaded);
    for (int j = 0; j < kVec8; ++j) values.at[j] = curve<kActivation>(values.at[j]).value;
    store(y + row * columns + column, pack<Value>(values));
    return values;
  }
};

template <typename Value>
struct PackedPair {
  Packed<Value> first, second;
};

template <typename Value, ActivationFunction kActivation>
struct DifferentiateRows {
  static constexpr bool kSums = true;
  using Loaded = PackedPair<Value>;
  struct Column {};
  const Value *grad_y, *x;
  Value* grad_x;
  std::int64_t columns;

  __device__ __forceinline__ Column column(std::int64_t) const { return {}; }
  __device__ __forceinline__ Loaded load_at(const Column&, std::int64_t row,
                                            std::int64_t column) const {
    return {load(grad_y + row * columns + column), load(x + row * columns + column)};
  }
  __device__ __forceinline__ Vec8 take(const Loaded& loaded, const Column&, std::int64_t row,
                                       std::int64_t column) const {
    Vec8 gradient = unpack(loaded.first);
    const Vec8 values = unpack(loaded.second);
    for (int j = 0; j < kVec8; ++j) gradient.at[j] *= curve<kActivation>(values.at[j]).slope;
    store(grad_x + row * columns + column, pack<Value>(gradient));
    return gradient;
  }
};

template <typename Value>
struct ConcatenateRows {
  static constexpr bool kSums = true;
  using Loaded = Packed<Value>;
  struct Column {
    const Value* part;  ///< address of this column in row 0 of its part
  };
  const Value* parts[3];
  Value* whole;
  std::int64_t width;  ///< columns of one part

  __device__ __forceinline__ Column column(std::int64_t column) const {
    const auto part = static_cast<int>(column / width);
    const Value* const from = part == 0 ? parts[0] : part == 1 ? parts[1] : parts[2];
    return {from + (column - part * width)};
  }
  __device__ __forceinline__ Loaded load_at(const Column& from, std::int64_t row,
                                            std::int64_t) const {
    return load(from.part + row * width);
  }
  __device__ __forceinline__ Vec8 take(const Loaded& loaded, const Column&, std::int64_t row,
                                       std::int64_t column) const {
    store(whole + row * 3 * width + column, loaded);
    return unpack(loaded);
  }
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

template <typename Value, typename Rows>
void launch(cudaStream_t stream, const Rows& rows, Shape shape, float* partials, void* sums) {
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

template <ActivationFunction kActivation>
struct Constant {
  static constexpr ActivationFunction value = kActivation;
};

template <typename Body>
void with_activation(ActivationFunction activation, Body body) {
  switch (activation) {
    case ActivationFunction::GeluTanh:
      return body(Constant<ActivationFunction::GeluTanh>{});
    case ActivationFunction::Gelu:
      return body(Constant<ActivationFunction::Gelu>{});
    case ActivationFunction::Relu:
      return body(Constant<ActivationFunction::Relu>{});
    case ActivationFunction::Silu:
      return body(Constant<ActivationFunction::Silu>{});
  }
}

}  // namespace

std::int64_t column_partials(std::int64_t rows) {
  return rows < 1 ? 1 : (rows + kRowsPerBlock - 1) / kRowsPerBlock;
}

void launch_column_sums(cudaStream_t stream, Element element, const void* x, Shape shape,
                        float* partials, void* sums) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    launch<Value>(stream, SumRows<Value>{as<Value>(x), shape.columns}, shape, partials, sums);
  });
}

void launch_activation(cudaStream_t stream, Element element, ActivationFunction activation,
                       const void* x, Shape shape, void* y) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    with_activation(activation, [&](auto kind) {
      launch<Value>(
          stream,
          ActivateRows<Value, decltype(kind)::value>{as<Value>(x), as<Value>(y), shape.columns},
          shape, nullptr, nullptr);
    });
  });
}

void launch_activation_backward(cudaStream_t stream, Element element, ActivationFunction activation,
                                const void* grad_y, const void* x, Shape shape, void* grad_x,
                                float* partials, void* sums) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    with_activation(activation, [&](auto kind) {
      launch<Value>(stream,
                    DifferentiateRows<Value, decltype(kind)::value>{
                        as<Value>(grad_y), as<Value>(x), as<Value>(grad_x), shape.columns},
                    shape, partials, sums);
    });
  });
}

void launch_concatenate(cudaStream_t stream, Element element, Parts parts, Shape part, void* whole,
                        float* partials, void* sums) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    launch<Value>(stream,
                  ConcatenateRows<Value>{
                      {as<Value>(parts.at[0]), as<Value>(parts.at[1]), as<Value>(parts.at[2])},
                      as<Value>(whole),
                      part.columns},
                  Shape{part.rows, 3 * part.columns}, partials, sums);
  });
}

}  // namespace athanor::cuda
