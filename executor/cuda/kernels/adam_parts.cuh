// SPDX-License-Identifier: Apache-2.0
// Parts of AdamW's kernels: vectors of four elements, masters whole and split, and segments.
#pragma once

#include "executor/cuda/kernels/kernels.hpp"

#include <cstdint>
#include <span>

namespace athanor::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWidth = 4;  // elements of one vector load

struct alignas(8) Bf16x4 {
  std::uint16_t at[kWidth];
};
struct alignas(8) Int16x4 {
  std::int16_t at[kWidth];
};
struct alignas(16) Fp32x4 {
  float at[kWidth];
};

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16U);
}

template <typename Value>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type = Fp32x4;
};
template <>
struct VectorOf<std::uint16_t> {
  using Type = Bf16x4;
};
template <typename Value>
using Vector = typename VectorOf<Value>::Type;

/// A kernel's segments, passed among its arguments.
struct AdamTable {
  std::int64_t begin[kAdamSegments], end[kAdamSegments];
  std::uint32_t decays;  // one bit a segment
  int count;

  __host__ __device__ std::int64_t last() const { return end[count - 1]; }
};
static_assert(kAdamSegments <= 32, "one bit a segment");

/// A master that is whole.
struct WholeMaster {
  float* master;

  __device__ __forceinline__ Fp32x4 load(std::int64_t v) const {
    return reinterpret_cast<const Fp32x4*>(master)[v];
  }
  __device__ __forceinline__ void store(std::int64_t v, const Fp32x4& updated) const {
    reinterpret_cast<Fp32x4*>(master)[v] = updated;
  }
  __device__ __forceinline__ float load_one(std::int64_t i) const { return master[i]; }
  __device__ __forceinline__ void store_one(std::int64_t i, float updated) const {
    master[i] = updated;
  }
};

/// A split master, whose halves are joined and split again in registers.
struct SplitMasters {
  std::uint16_t* parameters;
  std::int16_t* rests;

  __device__ __forceinline__ Fp32x4 load(std::int64_t v) const {
    const Bf16x4 upper = reinterpret_cast<const Bf16x4*>(parameters)[v];
    const Int16x4 lower = reinterpret_cast<const Int16x4*>(rests)[v];
    Fp32x4 master;
    for (int j = 0; j < kWidth; ++j) master.at[j] = join_master(upper.at[j], lower.at[j]);
    return master;
  }
  __device__ __forceinline__ void store(std::int64_t v, const Fp32x4& updated) const {
    Bf16x4 upper;
    Int16x4 lower;
    for (int j = 0; j < kWidth; ++j) {
      const SplitMaster split = split_master(updated.at[j]);
      upper.at[j] = split.parameter;
      lower.at[j] = split.rest;
    }
    reinterpret_cast<Bf16x4*>(parameters)[v] = upper;
    reinterpret_cast<Int16x4*>(rests)[v] = lower;
  }
  __device__ __forceinline__ float load_one(std::int64_t i) const {
    return join_master(parameters[i], rests[i]);
  }
  __device__ __forceinline__ void store_one(std::int64_t i, float updated) const {
    const SplitMaster split = split_master(updated);
    parameters[i] = split.parameter;
    rests[i] = split.rest;
  }
};

inline constexpr std::int64_t kFillGpu = 2048;  // blocks, on any GPU

/// Number of blocks: `most`, but no more than there is work for.
inline int blocks_for(std::int64_t elements, std::int64_t most = kFillGpu) {
  const std::int64_t wanted = (elements / kWidth + kThreads - 1) / kThreads;
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

inline AdamTable table_of(std::span<const AdamSegment> segments) {
  AdamTable table{};
  for (const AdamSegment& segment : segments) {
    table.begin[table.count] = segment.begin;
    table.end[table.count] = segment.end;
    if (segment.decays) table.decays |= 1U << static_cast<unsigned>(table.count);
    ++table.count;
  }
  return table;
}

}  // namespace athanor::cuda
