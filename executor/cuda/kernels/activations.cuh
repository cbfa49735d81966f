// SPDX-License-Identifier: Apache-2.0
// Activations: value and slope at a point.
#pragma once

#include "executor/cuda/kernels/fused_kernels.hpp"

namespace athanor::cuda {

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

}  // namespace athanor::cuda
