// SPDX-License-Identifier: Apache-2.0
// Element-wise passes over a matrix, with the sums over its rows where they are needed: gradients
// of activations and of biases.
#include "executor/cuda/kernels/activations.cuh"
#include "executor/cuda/kernels/column_pass.cuh"

namespace athanor::cuda {
namespace {

template <typename Value>
struct SumRows {
  static constexpr bool kSums = true;
  using Loaded = Packed<Value>;
  using Column = PlainColumn;
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
  using Column = PlainColumn;
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

template <typename Value, ActivationFunction kActivation>
struct DifferentiateRows {
  static constexpr bool kSums = true;
  using Loaded = PackedPair<Value>;
  using Column = PlainColumn;
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

}  // namespace

std::int64_t column_partials(std::int64_t rows) {
  return rows < 1 ? 1 : (rows + kRowsPerBlock - 1) / kRowsPerBlock;
}

void launch_column_sums(cudaStream_t stream, Element element, const void* x, Shape shape,
                        float* partials, void* sums) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    launch_pass<Value>(stream, SumRows<Value>{as<Value>(x), shape.columns}, shape, partials, sums);
  });
}

void launch_activation(cudaStream_t stream, Element element, ActivationFunction activation,
                       const void* x, Shape shape, void* y) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    with_activation(activation, [&](auto kind) {
      launch_pass<Value>(
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
      launch_pass<Value>(stream,
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
    launch_pass<Value>(stream,
                       ConcatenateRows<Value>{
                           {as<Value>(parts.at[0]), as<Value>(parts.at[1]), as<Value>(parts.at[2])},
                           as<Value>(whole),
                           part.columns},
                       Shape{part.rows, 3 * part.columns}, partials, sums);
  });
}

}  // namespace athanor::cuda
