// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels over flat shards: bound by memory, four elements per thread and load.
#include "executor/cuda/kernels/adam_parts.cuh"

#include <cuda_runtime.h>

#include <algorithm>

namespace athanor::cuda {
namespace {

/// Calls body(i, width) for every vector of four, and for the rest one by one.
template <typename Body>
__device__ __forceinline__ void for_vectors(std::int64_t elements, Body body) {
  const std::int64_t vectors = elements / kWidth;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t v = first; v < vectors; v += stride) body.vector(v);
  const std::int64_t rest = vectors * kWidth + first;
  if (rest < elements) body.scalar(rest);
}

template <typename Gradient, typename Moment, typename Masters>
struct AdamBody {
  const AdamShard& s;
  Masters masters;
  Moment *first_moment, *second_moment;
  AdamStep k;
  float scale;

  __device__ __forceinline__ void vector(std::int64_t v) const {
    Fp32x4 master = masters.load(v);
    auto first = reinterpret_cast<Vector<Moment>*>(first_moment)[v];
    auto second = reinterpret_cast<Vector<Moment>*>(second_moment)[v];
    const auto gradient = reinterpret_cast<const Vector<Gradient>*>(s.gradient)[v];
    for (int j = 0; j < kWidth; ++j) {
      master.at[j] =
          adam_update(master.at[j], first.at[j], second.at[j], to_float(gradient.at[j]) * scale, k);
    }
    masters.store(v, master);
    reinterpret_cast<Vector<Moment>*>(first_moment)[v] = first;
    reinterpret_cast<Vector<Moment>*>(second_moment)[v] = second;
  }
  __device__ __forceinline__ void scalar(std::int64_t i) const {
    const float gradient = to_float(static_cast<const Gradient*>(s.gradient)[i]) * scale;
    masters.store_one(
        i, adam_update(masters.load_one(i), first_moment[i], second_moment[i], gradient, k));
  }
};

template <typename Gradient, typename Moment, typename Masters>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const __grid_constant__ AdamShard shard, const Masters masters, Moment* first,
                Moment* second, const __grid_constant__ AdamTable segments, AdamStep step,
                const float* gradient_scale) {
  AdamBody<Gradient, Moment, Masters> body{shard, masters, first, second, step, *gradient_scale};
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kWidth;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  int at = 0;
  for (std::int64_t i = segments.begin[0] + thread * kWidth; i < segments.last(); i += stride) {
    while (i >= segments.end[at]) ++at;
    if (i < segments.begin[at]) continue;
    body.k.decay = (segments.decays >> at & 1U) != 0 ? step.decay : 1.0F;
    if (i + kWidth <= segments.end[at]) {
      body.vector(i / kWidth);
    } else {
      for (std::int64_t j = i; j < segments.end[at]; ++j) body.scalar(j);
    }
  }
}

template <typename Addend, bool kAdds>
struct AccumulateBody {
  float* sum;
  const Addend* addend;

  __device__ __forceinline__ void vector(std::int64_t v) const {
    const auto values = reinterpret_cast<const Vector<Addend>*>(addend)[v];
    Fp32x4 total{};
    if constexpr (kAdds) total = reinterpret_cast<Fp32x4*>(sum)[v];
    for (int j = 0; j < kWidth; ++j) total.at[j] += to_float(values.at[j]);
    reinterpret_cast<Fp32x4*>(sum)[v] = total;
  }
  __device__ __forceinline__ void scalar(std::int64_t i) const {
    sum[i] = (kAdds ? sum[i] : 0.0F) + to_float(addend[i]);
  }
};

template <typename Addend, bool kAdds>
__global__ void __launch_bounds__(kThreads)
    accumulate_kernel(float* sum, const Addend* addend, std::int64_t elements) {
  for_vectors(elements, AccumulateBody<Addend, kAdds>{sum, addend});
}

/// Blocks that fill the link to the host. Reads wait for it, so it takes many. Writes do not: where
/// they outrun it, they fill the GPU's own queues and everything else waits. On an H100, 4 blocks
/// write 46 GB/s and kernels beside them take 1.00 to 1.04 times as long; 32 blocks write 52 GB/s,
/// and attention takes 1.5 times as long, kernels that memory bounds 2.8 times.
constexpr std::int64_t kFillLinkReading = 32, kFillLinkWriting = 4;

template <typename Gradient, typename Masters>
void launch_adam_of(cudaStream_t stream, const AdamShard& shard, const Masters& masters,
                    const AdamTable& table, const AdamStep& step, const float* gradient_scale) {
  const int blocks = blocks_for(table.last() - table.begin[0]);
  const AdamStateView& state = shard.state;
  if (state.has_bf16_moments()) {
    adam_kernel<Gradient, std::uint16_t, Masters>
        <<<blocks, kThreads, 0, stream>>>(shard, masters, state.first_moment_bf16,
                                          state.second_moment_bf16, table, step, gradient_scale);
  } else {
    adam_kernel<Gradient, float, Masters><<<blocks, kThreads, 0, stream>>>(
        shard, masters, state.first_moment, state.second_moment, table, step, gradient_scale);
  }
}

template <typename Addend>
void launch_accumulate_of(cudaStream_t stream, float* sum, MemoryLocation sum_home,
                          const Addend* addend, std::int64_t elements, bool add) {
  const std::int64_t fill_link = add ? kFillLinkReading : kFillLinkWriting;
  const int blocks = blocks_for(elements, sum_home == MemoryLocation::Host ? fill_link : kFillGpu);
  if (add) {
    accumulate_kernel<Addend, true><<<blocks, kThreads, 0, stream>>>(sum, addend, elements);
  } else {
    accumulate_kernel<Addend, false><<<blocks, kThreads, 0, stream>>>(sum, addend, elements);
  }
}

}  // namespace

void launch_adam(cudaStream_t stream, const AdamShard& shard, std::span<const AdamSegment> segments,
                 const AdamStep& step, const float* gradient_scale) {
  if (shard.state.has_int8_moments()) {
    return launch_adam_in_blocks(stream, shard, segments, step, gradient_scale);
  }
  const SplitMasters split{shard.state.parameters, shard.state.rests};
  while (!segments.empty()) {
    const AdamTable table =
        table_of(segments.first(std::min<std::size_t>(segments.size(), kAdamSegments)));
    segments = segments.subspan(static_cast<std::size_t>(table.count));
    if (!shard.state.is_split()) {
      const WholeMaster whole{shard.state.master};
      launch_adam_of<float>(stream, shard, whole, table, step, gradient_scale);
    } else if (shard.gradient_is_bf16) {
      launch_adam_of<std::uint16_t>(stream, shard, split, table, step, gradient_scale);
    } else {
      launch_adam_of<float>(stream, shard, split, table, step, gradient_scale);
    }
  }
}

void launch_accumulate(cudaStream_t stream, float* sum, MemoryLocation sum_home, const void* addend,
                       bool addend_is_bf16, std::int64_t elements, bool add) {
  if (elements == 0) return;
  if (addend_is_bf16) {
    launch_accumulate_of(stream, sum, sum_home, static_cast<const std::uint16_t*>(addend), elements,
                         add);
  } else {
    launch_accumulate_of(stream, sum, sum_home, static_cast<const float*>(addend), elements, add);
  }
}

}  // namespace athanor::cuda
