// SPDX-License-Identifier: Apache-2.0
// Gated activations (Shazeer 2020): y = activation(gate) * up, with gate and up side by side.
#include "executor/cuda/kernels/activations.cuh"
#include "executor/cuda/kernels/column_pass.cuh"

namespace athanor::cuda {
namespace {

/// Gate and up lie in rows of twice `columns`, which y has.
template <typename Value, ActivationFunction kActivation>
struct GateRows {
  static constexpr bool kSums = false;
  using Loaded = PackedPair<Value>;
  using Column = PlainColumn;
  const Value* packed;
  Value* y;
  std::int64_t columns;

  __device__ __forceinline__ Column column(std::int64_t) const { return {}; }
  __device__ __forceinline__ Loaded load_at(const Column&, std::int64_t row,
                                            std::int64_t column) const {
    const Value* const gate = packed + row * 2 * columns + column;
    return {load(gate), load(gate + columns)};
  }
  __device__ __forceinline__ Vec8 take(const Loaded& loaded, const Column&, std::int64_t row,
                                       std::int64_t column) const {
    const Vec8 gate = unpack(loaded.first);
    Vec8 result = unpack(loaded.second);
    for (int j = 0; j < kVec8; ++j) result.at[j] *= curve<kActivation>(gate.at[j]).value;
    store(y + row * columns + column, pack<Value>(result));
    return result;
  }
};

template <typename Value>
struct PackedTriple {
  Packed<Value> first, second, third;
};

template <typename Value, ActivationFunction kActivation>
struct GateBackwardRows {
  static constexpr bool kSums = false;
  using Loaded = PackedTriple<Value>;
  using Column = PlainColumn;
  const Value *grad_y, *packed;
  Value *grad_packed, *y;
  std::int64_t columns;

  __device__ __forceinline__ Column column(std::int64_t) const { return {}; }
  __device__ __forceinline__ Loaded load_at(const Column&, std::int64_t row,
                                            std::int64_t column) const {
    const Value* const gate = packed + row * 2 * columns + column;
    return {load(grad_y + row * columns + column), load(gate), load(gate + columns)};
  }
  __device__ __forceinline__ Vec8 take(const Loaded& loaded, const Column&, std::int64_t row,
                                       std::int64_t column) const {
    const Vec8 gradient = unpack(loaded.first);
    Vec8 gate = unpack(loaded.second), up = unpack(loaded.third), result;
    for (int j = 0; j < kVec8; ++j) {
      const Curve at_gate = curve<kActivation>(gate.at[j]);
      result.at[j] = at_gate.value * up.at[j];
      gate.at[j] = gradient.at[j] * up.at[j] * at_gate.slope;
      up.at[j] = gradient.at[j] * at_gate.value;
    }
    Value* const to = grad_packed + row * 2 * columns + column;
    store(to, pack<Value>(gate));
    store(to + columns, pack<Value>(up));
    store(y + row * columns + column, pack<Value>(result));
    return result;
  }
};

}  // namespace

void launch_gate(cudaStream_t stream, Element element, ActivationFunction activation,
                 const void* packed, Shape shape, void* y) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    with_activation(activation, [&](auto kind) {
      launch_pass<Value>(
          stream,
          GateRows<Value, decltype(kind)::value>{as<Value>(packed), as<Value>(y), shape.columns},
          shape, nullptr, nullptr);
    });
  });
}

void launch_gate_backward(cudaStream_t stream, Element element, ActivationFunction activation,
                          const GateBackward& a, Shape shape) {
  with_element(element, [&](auto of_type) {
    using Value = decltype(of_type);
    with_activation(activation, [&](auto kind) {
      launch_pass<Value>(stream,
                         GateBackwardRows<Value, decltype(kind)::value>{
                             as<Value>(a.grad_y), as<Value>(a.packed), as<Value>(a.grad_packed),
                             as<Value>(a.y), shape.columns},
                         shape, nullptr, nullptr);
    });
  });
}

}  // namespace athanor::cuda
