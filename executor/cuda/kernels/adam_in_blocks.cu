// SPDX-License-Identifier: Apache-2.0
// AdamW with moments in int8: one warp a block of moments, so that the block's new scales are two
// reductions of a warp. Maps of levels are in shared memory: lanes look at different ones.
#include "executor/cpu/moment_map.hpp"
#include "executor/cuda/kernels/adam_parts.cuh"

#include <cuda_runtime.h>

#include <algorithm>

namespace athanor::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kVectorsOfLane = static_cast<int>(kMomentBlock) / (kLanes * kWidth);
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ constexpr MomentMap kFirstMap = make_moment_map(/*has_sign=*/true);
__device__ constexpr MomentMap kSecondMap = make_moment_map(/*has_sign=*/false);

/// A map of levels in shared memory, with bins of one byte.
struct SharedMap {
  float level[MomentMap::kMostLevels], border[MomentMap::kMostLevels];
  std::uint8_t first[MomentMap::kBins];

  __device__ void load(const MomentMap& map) {
    for (int i = threadIdx.x; i < MomentMap::kMostLevels; i += kThreads) {
      level[i] = map.level[i];
      border[i] = map.border[i];
    }
    for (int i = threadIdx.x; i < MomentMap::kBins; i += kThreads) {
      first[i] = static_cast<std::uint8_t>(map.first[i]);
    }
  }
};

struct alignas(4) Codes {
  std::uint8_t at[kWidth];
};

/// Moments of one lane's elements of a block.
struct LaneMoments {
  float first[kVectorsOfLane][kWidth], second[kVectorsOfLane][kWidth];
};

template <typename Gradient, typename Masters>
struct BlockBody {
  const AdamShard& s;
  Masters masters;
  const AdamTable& segments;
  AdamStep k;
  float scale;
  const SharedMap &first_map, &second_map;

  __device__ __forceinline__ static std::int64_t vector_of(std::int64_t block, int part) {
    return (block * kVectorsOfLane + part) * kLanes + threadIdx.x % kLanes;
  }

  __device__ __forceinline__ void decode(std::int64_t block, LaneMoments& moments) const {
    const MomentScales scales = s.state.scales[block];
    for (int part = 0; part < kVectorsOfLane; ++part) {
      const std::int64_t v = vector_of(block, part);
      const Codes first = reinterpret_cast<const Codes*>(s.state.first_moment_int8)[v];
      const Codes second = reinterpret_cast<const Codes*>(s.state.second_moment_int8)[v];
      for (int j = 0; j < kWidth; ++j) {
        moments.first[part][j] = decode_first(first_map, first.at[j], scales.first);
        moments.second[part][j] = decode_second(second_map, second.at[j], scales.second);
      }
    }
  }

  /// Updates a vector of elements, which reach into one segment or none.
  __device__ __forceinline__ void update(std::int64_t v, float* first, float* second) const {
    const std::int64_t begin = v * kWidth;
    int at = -1;
    while (at + 1 < segments.count && segments.begin[at + 1] <= begin) ++at;
    if (at < 0 || begin >= segments.end[at]) return;
    AdamStep step = k;
    step.decay = (segments.decays >> at & 1U) != 0 ? k.decay : 1.0F;
    if (begin + kWidth > segments.end[at]) {
      for (int j = 0; begin + j < segments.end[at]; ++j) {
        const std::int64_t i = begin + j;
        const float gradient = to_float(static_cast<const Gradient*>(s.gradient)[i]) * scale;
        masters.store_one(i, adam_update(masters.load_one(i), first[j], second[j], gradient, step));
      }
      return;
    }
    Fp32x4 master = masters.load(v);
    const auto gradient = reinterpret_cast<const Vector<Gradient>*>(s.gradient)[v];
    for (int j = 0; j < kWidth; ++j) {
      master.at[j] =
          adam_update(master.at[j], first[j], second[j], to_float(gradient.at[j]) * scale, step);
    }
    masters.store(v, master);
  }

  __device__ __forceinline__ void encode(std::int64_t block, const LaneMoments& moments) const {
    std::uint32_t first_key = 0, second_key = 0;
    for (int part = 0; part < kVectorsOfLane; ++part) {
      for (int j = 0; j < kWidth; ++j) {
        first_key = max(first_key, scale_key(moments.first[part][j]));
        second_key = max(second_key, scale_key(moments.second[part][j]));
      }
    }
    const MomentScales scales{scale_of_key(__reduce_max_sync(kAllLanes, first_key)),
                              scale_of_key(__reduce_max_sync(kAllLanes, second_key))};
    for (int part = 0; part < kVectorsOfLane; ++part) {
      const std::int64_t v = vector_of(block, part);
      Codes first, second;
      for (int j = 0; j < kWidth; ++j) {
        first.at[j] = encode_first(first_map, moments.first[part][j], scales.first);
        second.at[j] = encode_second(second_map, moments.second[part][j], scales.second);
      }
      reinterpret_cast<Codes*>(s.state.first_moment_int8)[v] = first;
      reinterpret_cast<Codes*>(s.state.second_moment_int8)[v] = second;
    }
    if (threadIdx.x % kLanes == 0) s.state.scales[block] = scales;
  }
};

template <typename Gradient, typename Masters>
__global__ void __launch_bounds__(kThreads)
    adam_blocks_kernel(const __grid_constant__ AdamShard shard, const Masters masters,
                       const __grid_constant__ AdamTable segments, std::int64_t first_block,
                       std::int64_t last_block, AdamStep step, const float* gradient_scale) {
  __shared__ SharedMap first_map, second_map;
  first_map.load(kFirstMap);
  second_map.load(kSecondMap);
  __syncthreads();
  const BlockBody<Gradient, Masters> body{shard,           masters,   segments,  step,
                                          *gradient_scale, first_map, second_map};
  constexpr int kWarps = kThreads / kLanes;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  for (std::int64_t block = first_block + warp; block < last_block; block += stride) {
    LaneMoments moments;
    body.decode(block, moments);
    for (int part = 0; part < kVectorsOfLane; ++part) {
      body.update(body.vector_of(block, part), moments.first[part], moments.second[part]);
    }
    __syncwarp();
    body.encode(block, moments);
  }
}

template <typename Gradient, typename Masters>
void launch_of(cudaStream_t stream, const AdamShard& shard, const Masters& masters,
               const AdamTable& table, std::int64_t first_block, std::int64_t last_block,
               const AdamStep& step, const float* gradient_scale) {
  const int blocks = blocks_for((last_block - first_block) * kMomentBlock / 2);
  adam_blocks_kernel<Gradient, Masters><<<blocks, kThreads, 0, stream>>>(
      shard, masters, table, first_block, last_block, step, gradient_scale);
}

}  // namespace

/// Each kernel takes whole blocks, up to the one in which a segment begins that is one too many.
void launch_adam_in_blocks(cudaStream_t stream, const AdamShard& shard,
                           std::span<const AdamSegment> segments, const AdamStep& step,
                           const float* gradient_scale) {
  const SplitMasters split{shard.state.parameters, shard.state.rests};
  std::int64_t first = segments.empty() ? 0 : segments.front().begin / kMomentBlock;
  while (!segments.empty()) {
    const std::size_t count = std::min<std::size_t>(segments.size(), kAdamSegments);
    const std::int64_t last = count < segments.size()
                                  ? segments[count].begin / kMomentBlock
                                  : (segments.back().end + kMomentBlock - 1) / kMomentBlock;
    const AdamTable table = table_of(segments.first(count));
    if (!shard.state.is_split()) {
      launch_of<float>(stream, shard, WholeMaster{shard.state.master}, table, first, last, step,
                       gradient_scale);
    } else if (shard.gradient_is_bf16) {
      launch_of<std::uint16_t>(stream, shard, split, table, first, last, step, gradient_scale);
    } else {
      launch_of<float>(stream, shard, split, table, first, last, step, gradient_scale);
    }
    first = last;
    while (!segments.empty() && segments.front().end <= first * kMomentBlock) {
      segments = segments.subspan(1);
    }
  }
}

}  // namespace athanor::cuda
