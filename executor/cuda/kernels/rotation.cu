// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al. 2021) of a token's query and key heads, which lie side by side, with
// the heads' RMS norms before them where a model has those (Qwen3). A thread holds eight pairs
// (i, i + head_dim / 2) of a head. Angles are computed here: a table would have to be kept or made
// anew by every unit.
#include "executor/cuda/kernels/column_sums.cuh"
#include "executor/cuda/kernels/fused_kernels.hpp"
#include "executor/cuda/kernels/vec8.cuh"

namespace athanor::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kPairs = kVec8;  ///< pairs of a thread
constexpr int kMostSums = kMostThreads * 2 * kPairs;

/// Cosines and sines of one token's angles, rounded to the type of the elements.
struct Angles {
  float cosines[kMostFrequencies], sines[kMostFrequencies];
};

/// The two halves of a thread's eight pairs.
struct Halves {
  Vec8 low, high;
};

__device__ __forceinline__ float rounded(float value, float) { return value; }
__device__ __forceinline__ float rounded(float value, __nv_bfloat16) {
  return __bfloat162float(__float2bfloat16_rn(value));
}

/// Fills the token's angles. All threads of the block call it.
template <typename Value>
__device__ __forceinline__ void fill_angles(const Rotation& r, std::int64_t row, Angles& angles) {
  const std::int64_t position = r.positions == nullptr ? row % r.sequence : r.positions[row];
  __syncthreads();  // the row before is done with its angles
  for (auto i = static_cast<int>(threadIdx.x); i < r.head_dim / 2; i += blockDim.x) {
    float sine = 0, cosine = 0;
    sincosf(static_cast<float>(position) * r.frequencies[i], &sine, &cosine);
    angles.cosines[i] = rounded(cosine * r.scale, Value{});
    angles.sines[i] = rounded(sine * r.scale, Value{});
  }
  __syncthreads();
}

/// Rotates by the angles, or back by them where `sign` is -1.
__device__ __forceinline__ Halves rotate(const Halves& x, const Angles& angles, int first,
                                         float sign) {
  Halves y;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const float cosine = angles.cosines[first + j];
    const float sine = sign * angles.sines[first + j];
    y.low.at[j] = fmaf(-x.high.at[j], sine, x.low.at[j] * cosine);
    y.high.at[j] = fmaf(x.low.at[j], sine, x.high.at[j] * cosine);
  }
  return y;
}

template <typename Value>
__device__ __forceinline__ Halves load_halves(const Value* head, int first, int half) {
  return {unpack(load(head + first)), unpack(load(head + half + first))};
}

template <typename Value>
__device__ __forceinline__ void store_halves(Value* head, int first, int half, const Halves& x) {
  store(head + first, pack<Value>(x.low));
  store(head + half + first, pack<Value>(x.high));
}

/// Place of a thread among a token's heads: it holds eight pairs from `first` on of every
/// (blockDim.x / parts)-th head.
struct Part {
  int parts, first, head, heads_at_once, half;
  __device__ __forceinline__ explicit Part(const Rotation& r)
      : parts(r.head_dim / (2 * kPairs)),
        first(static_cast<int>(threadIdx.x) % parts * kPairs),
        head(static_cast<int>(threadIdx.x) / parts),
        heads_at_once(static_cast<int>(blockDim.x) / parts),
        half(r.head_dim / 2) {}
};

/// Rotates `heads` heads of each row.
template <typename Value>
__global__ void __launch_bounds__(kMostThreads)
    rotate_kernel(Rotation r, Value* x, std::int64_t stride, float sign) {
  __shared__ Angles angles;
  const Part part(r);
  const std::int64_t row = blockIdx.x;
  fill_angles<Value>(r, row, angles);
  for (int head = part.head; head < r.heads; head += part.heads_at_once) {
    Value* const at = x + row * stride + static_cast<std::int64_t>(head) * r.head_dim;
    const Halves values = load_halves(at, part.first, part.half);
    store_halves(at, part.first, part.half, rotate(values, angles, part.first, sign));
  }
}

/// Sums over the threads that hold one head: a power of two of neighbouring lanes.
__device__ __forceinline__ float head_sum(float value, int parts) {
  for (int step = parts / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

__device__ __forceinline__ float dot(const Halves& a, const Halves& b) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    sum = fmaf(a.low.at[j], b.low.at[j], sum);
    sum = fmaf(a.high.at[j], b.high.at[j], sum);
  }
  return sum;
}

/// Calls body(low or high half's element) for every element that a thread holds.
template <typename Body>
__device__ __forceinline__ void for_each(Body body) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    body([j](auto& halves) -> auto& { return halves.low.at[j]; });
    body([j](auto& halves) -> auto& { return halves.high.at[j]; });
  }
}

/// Returns 1 / sqrt(mean(x^2) + epsilon) of the head that x is a part of.
__device__ __forceinline__ float inverse_rms(const Halves& x, const HeadNorms& norms, int parts,
                                             int head_dim) {
  return rsqrtf(head_sum(dot(x, x), parts) / static_cast<float>(head_dim) + norms.epsilon);
}

template <typename Value>
__device__ __forceinline__ Halves head_weight(const HeadNorms& norms, bool is_query,
                                              const Part& part) {
  const auto* const weight =
      static_cast<const Value*>(is_query ? norms.query_weight : norms.key_weight);
  return load_halves(weight, part.first, part.half);
}

/// Normalizes and rotates the heads of `from`, rows `from_stride` apart, to `to`, rows of heads
/// alone. Warps run through the loop together: heads beyond the last are computed and not stored.
template <typename Value>
__global__ void __launch_bounds__(kMostThreads)
    norm_and_rotate_kernel(Rotation r, HeadNorms norms, const Value* from, std::int64_t from_stride,
                           Value* to) {
  __shared__ Angles angles;
  const Part part(r);
  const std::int64_t row = blockIdx.x;
  fill_angles<Value>(r, row, angles);
  for (int first = 0; first < r.heads; first += part.heads_at_once) {
    const int head = first + part.head;
    const bool exists = head < r.heads;
    const std::int64_t column = static_cast<std::int64_t>(exists ? head : 0) * r.head_dim;
    Halves x = load_halves(from + row * from_stride + column, part.first, part.half);
    const float scale = inverse_rms(x, norms, part.parts, r.head_dim);
    Halves weight = head_weight<Value>(norms, head < norms.query_heads, part);
    for_each([&](auto at) { at(x) *= scale * at(weight); });
    if (!exists) continue;
    store_halves(to + (row * r.heads * r.head_dim + column), part.first, part.half,
                 rotate(x, angles, part.first, 1.0F));
  }
}

/// Sums of a thread over rows and heads: the gradients of both weights.
struct WeightSums {
  Halves query, key;
};

/// Adds the sums of all threads of a block that hold the same elements, in the order of heads.
__device__ __forceinline__ void write_weight_sums(const Halves& sums, const Part& part,
                                                  int head_dim, int which, float* partials) {
  __shared__ float shared[kMostSums];
  __syncthreads();
  float* const own = shared + part.head * head_dim;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    own[part.first + j] = sums.low.at[j];
    own[part.half + part.first + j] = sums.high.at[j];
  }
  __syncthreads();
  for (auto i = static_cast<int>(threadIdx.x); i < head_dim; i += blockDim.x) {
    float total = 0;
    for (int head = 0; head < part.heads_at_once; ++head) total += shared[head * head_dim + i];
    partials[(static_cast<std::int64_t>(which) * gridDim.x + blockIdx.x) * head_dim + i] = total;
  }
}

/// Turns the gradient of normalized and rotated heads into that of the heads, in place.
template <typename Value>
__global__ void __launch_bounds__(kMostThreads)
    norm_and_rotate_backward_kernel(Rotation r, HeadNorms norms, const Value* x, Value* gradient,
                                    std::int64_t stride, std::int64_t rows, float* partials) {
  __shared__ Angles angles;
  const Part part(r);
  WeightSums sums{};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    fill_angles<Value>(r, row, angles);
    for (int first = 0; first < r.heads; first += part.heads_at_once) {
      const int head = first + part.head;
      const bool exists = head < r.heads, is_query = head < norms.query_heads;
      const std::int64_t at =
          row * stride + static_cast<std::int64_t>(exists ? head : 0) * r.head_dim;
      Halves normal = load_halves(x + at, part.first, part.half);
      const float scale = inverse_rms(normal, norms, part.parts, r.head_dim);
      Halves g =
          rotate(load_halves(gradient + at, part.first, part.half), angles, part.first, -1.0F);
      Halves weight = head_weight<Value>(norms, is_query, part);
      for_each([&](auto of) {
        of(normal) *= scale;
        const float product = exists ? of(g) * of(normal) : 0.0F;
        of(sums.query) += is_query ? product : 0.0F;
        of(sums.key) += is_query ? 0.0F : product;
        of(g) *= of(weight);
      });
      const float mean = head_sum(dot(g, normal), part.parts) / static_cast<float>(r.head_dim);
      for_each([&](auto of) { of(g) = scale * fmaf(-of(normal), mean, of(g)); });
      if (exists) store_halves(gradient + at, part.first, part.half, g);
    }
  }
  write_weight_sums(sums.query, part, r.head_dim, 0, partials);
  write_weight_sums(sums.key, part, r.head_dim, 1, partials);
}

/// Threads of a block: whole heads, and whole warps where lanes talk to each other.
int threads_for(const Rotation& r) {
  const int parts = r.head_dim / (2 * kPairs);
  const int needed = (r.heads * parts + kWarp - 1) / kWarp * kWarp;
  const int most = needed < kMostThreads ? needed : kMostThreads;
  return most / parts * parts;
}

template <typename Value>
void launch_norm_backward(cudaStream_t stream, const Rotation& r, const HeadNorms& norms,
                          const HeadNormsBackward& a, std::int64_t rows, int blocks,
                          float* partials) {
  norm_and_rotate_backward_kernel<Value><<<blocks, threads_for(r), 0, stream>>>(
      r, norms, static_cast<const Value*>(a.x), static_cast<Value*>(a.gradient), a.stride, rows,
      partials);
  launch_add_partials<Value>(stream, partials, blocks, r.head_dim,
                             {{a.grad_query_weight, a.grad_key_weight, nullptr}}, 2);
}

}  // namespace

void launch_rotate(cudaStream_t stream, Element element, const Rotation& rotation, void* x,
                   std::int64_t stride, std::int64_t rows, bool back) {
  if (rows == 0) return;
  const float sign = back ? -1.0F : 1.0F;
  const auto blocks = static_cast<unsigned>(rows);
  if (element == Element::BFloat16) {
    rotate_kernel<__nv_bfloat16><<<blocks, threads_for(rotation), 0, stream>>>(
        rotation, static_cast<__nv_bfloat16*>(x), stride, sign);
  } else {
    rotate_kernel<float><<<blocks, threads_for(rotation), 0, stream>>>(
        rotation, static_cast<float*>(x), stride, sign);
  }
}

void launch_norm_and_rotate(cudaStream_t stream, Element element, const Rotation& rotation,
                            const HeadNorms& norms, const void* from, std::int64_t from_stride,
                            std::int64_t rows, void* to) {
  if (rows == 0) return;
  const auto blocks = static_cast<unsigned>(rows);
  if (element == Element::BFloat16) {
    norm_and_rotate_kernel<__nv_bfloat16><<<blocks, threads_for(rotation), 0, stream>>>(
        rotation, norms, static_cast<const __nv_bfloat16*>(from), from_stride,
        static_cast<__nv_bfloat16*>(to));
  } else {
    norm_and_rotate_kernel<float><<<blocks, threads_for(rotation), 0, stream>>>(
        rotation, norms, static_cast<const float*>(from), from_stride, static_cast<float*>(to));
  }
}

void launch_norm_and_rotate_backward(cudaStream_t stream, Element element, const Rotation& rotation,
                                     const HeadNorms& norms, const HeadNormsBackward& arguments,
                                     std::int64_t rows, int blocks, float* partials) {
  if (element == Element::BFloat16) {
    launch_norm_backward<__nv_bfloat16>(stream, rotation, norms, arguments, rows, blocks, partials);
  } else {
    launch_norm_backward<float>(stream, rotation, norms, arguments, rows, blocks, partials);
  }
}

}  // namespace athanor::cuda
