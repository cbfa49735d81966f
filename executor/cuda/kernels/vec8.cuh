// SPDX-License-Identifier: Apache-2.0
// Eight neighbouring elements: what a thread loads, computes in fp32 and stores at once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace athanor::cuda {

inline constexpr int kVec8 = 8;
inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

struct Vec8 {
  float at[kVec8];
};

/// Eight elements as stored in memory.
template <typename Value>
struct Packed;
template <>
struct Packed<__nv_bfloat16> {
  uint4 bits;
};
template <>
struct Packed<float> {
  float4 low, high;
};

/// Loads eight elements; `from` is 16-byte aligned.
template <typename Value>
__device__ __forceinline__ Packed<Value> load(const Value* from) {
  return *reinterpret_cast<const Packed<Value>*>(from);
}

template <typename Value>
__device__ __forceinline__ void store(Value* to, const Packed<Value>& values) {
  *reinterpret_cast<Packed<Value>*>(to) = values;
}

__device__ __forceinline__ Vec8 unpack(const Packed<float>& p) {
  return {{p.low.x, p.low.y, p.low.z, p.low.w, p.high.x, p.high.y, p.high.z, p.high.w}};
}

__device__ __forceinline__ Packed<float> pack(const Vec8& v, float) {
  return {{v.at[0], v.at[1], v.at[2], v.at[3]}, {v.at[4], v.at[5], v.at[6], v.at[7]}};
}

__device__ __forceinline__ float low_half(std::uint32_t pair) {
  return __uint_as_float(pair << 16U);
}
__device__ __forceinline__ float high_half(std::uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000U);
}

__device__ __forceinline__ Vec8 unpack(const Packed<__nv_bfloat16>& p) {
  return {{low_half(p.bits.x), high_half(p.bits.x), low_half(p.bits.y), high_half(p.bits.y),
           low_half(p.bits.z), high_half(p.bits.z), low_half(p.bits.w), high_half(p.bits.w)}};
}

/// Packs two values, rounded to nearest even.
__device__ __forceinline__ std::uint32_t rounded_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ __forceinline__ Packed<__nv_bfloat16> pack(const Vec8& v, __nv_bfloat16) {
  return {{rounded_pair(v.at[0], v.at[1]), rounded_pair(v.at[2], v.at[3]),
           rounded_pair(v.at[4], v.at[5]), rounded_pair(v.at[6], v.at[7])}};
}

/// Packs values, rounded to `Value`.
template <typename Value>
__device__ __forceinline__ Packed<Value> pack(const Vec8& values) {
  return pack(values, Value{});
}

__device__ __forceinline__ void assign(float& to, float value) { to = value; }
__device__ __forceinline__ void assign(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}

/// Sums over a warp. Every lane gets the same bits: a butterfly adds the same pairs everywhere.
__device__ __forceinline__ float warp_sum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

}  // namespace athanor::cuda
