// SPDX-License-Identifier: Apache-2.0
// Launchers of athanor's own kernels. They enqueue and return; pointers are device memory or pinned
// host memory. Results are bit-equal to those of executor/cpu where it computes the same.
#pragma once

#include "executor/cpu/adam.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

namespace athanor::cuda {

/// A sum in double-double, laid out as athanor::ExactSum.
struct DoubleDouble {
  double high, low;
};

/// Memory of one shard's update, 16-byte aligned. `gradient` is fp32 or, where the master is split,
/// bf16.
struct AdamShard {
  AdamStateView state;
  const void* gradient;
  bool gradient_is_bf16;
};

/// Number of segments that one kernel takes.
inline constexpr int kAdamSegments = 16;

/// Launches AdamW on `segments`, which begin 16-byte aligned and come in order: one
/// kernel for every kAdamSegments of them. `step.decay` acts where a segment decays.
/// `gradient_scale` is read when the kernel runs.
void launch_adam(cudaStream_t stream, const AdamShard& shard, std::span<const AdamSegment> segments,
                 const AdamStep& step, const float* gradient_scale);

/// Launches AdamW on a shard with moments in int8, likewise; launch_adam() calls it. Segments begin
/// at multiples of 32.
void launch_adam_in_blocks(cudaStream_t stream, const AdamShard& shard,
                           std::span<const AdamSegment> segments, const AdamStep& step,
                           const float* gradient_scale);

/// Memory in which a kernel's slowest operand lies.
enum class MemoryLocation { Device, Host };

/// Computes sum[i] += addend[i], or sum[i] = 0 + addend[i] without `add`; bf16 addends widen first.
/// A sum on the host takes only as many blocks as fill the link: more would keep other kernels from
/// running. On an H200, 32 blocks add at 42 GB/s and leave a concurrent matrix product its speed;
/// 2048 add at the same rate and make the product take 1.4 times as long.
void launch_accumulate(cudaStream_t stream, float* sum, MemoryLocation sum_home, const void* addend,
                       bool addend_is_bf16, std::int64_t elements, bool add);

/// Number of partial sums that a square sum keeps between its two kernels.
inline constexpr int kSquareSumPartials = 512;

/// Computes a sum of squares; `partials` are kSquareSumPartials elements of scratch.
void launch_square_sum(cudaStream_t stream, const void* values, bool values_are_bf16,
                       std::int64_t elements, DoubleDouble* partials, DoubleDouble* result);

/// Computes result = values[0] + values[1] + .., in this order.
void launch_sum(cudaStream_t stream, const DoubleDouble* values, int count, DoubleDouble* result);

/// Computes norm = sqrt(sum of the square sums) and scale = min(1, limit / (norm + epsilon)).
void launch_norm(cudaStream_t stream, const DoubleDouble* square_sums, int count, float limit,
                 float epsilon, float* norm, float* scale);

}  // namespace athanor::cuda
