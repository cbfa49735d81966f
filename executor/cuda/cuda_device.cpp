// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_device.hpp"

#include "executor/cuda/kernels/kernels.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cassert>
#include <memory>
#include <string>

namespace athanor::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Memory allowed for gaps. LibTorch limits what its allocator keeps: tensors, and gaps between
/// them that fit none. memory_limit is on tensors alone, so gaps may come on top of it, up to one
/// part in 32.
constexpr Bytes kLeastGaps = 256 * kMiB;
constexpr Bytes kGapsShare = 32;

static_assert(sizeof(DoubleDouble) == sizeof(ExactSum));

DoubleDouble* sums(ExactSum* sum) { return reinterpret_cast<DoubleDouble*>(sum); }
const DoubleDouble* sums(const ExactSum* sum) { return reinterpret_cast<const DoubleDouble*>(sum); }

std::size_t size(Bytes bytes) { return static_cast<std::size_t>(bytes); }

c10::DeviceIndex torch_index(int index) { return static_cast<c10::DeviceIndex>(index); }

Bytes total_memory(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "read the GPU's properties");
  return static_cast<Bytes>(properties.totalGlobalMem);
}

Bytes allocated_now(int index) {
  return allocator::getDeviceStats(torch_index(index)).allocated_bytes[0].current;
}

/// Whether the processor reaches `memory`, page-locked or not.
bool is_host_memory(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "find out where memory is");
  return attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost;
}

}  // namespace

CudaDevice::Selected::Selected(int index) {
  check(cudaSetDevice(index), ("use GPU " + std::to_string(index)).c_str());
}

CudaDevice::CudaDevice(int index, Bytes memory_limit)
    : index_(index),
      memory_limit_(memory_limit > 0 ? std::min(memory_limit, total_memory(index))
                                     : total_memory(index)),
      selected_(index),
      // Collectives first: others wait for them, and they need few of the GPU's processors.
      streams_{Stream(), Stream(Stream::Priority::High), Stream(), Stream()},
      compute_partials_(kSquareSumPartials * static_cast<Bytes>(sizeof(DoubleDouble))),
      collective_partials_(kSquareSumPartials * static_cast<Bytes>(sizeof(DoubleDouble))) {
  allocator::init(c10::cuda::device_count());
  const Bytes total = total_memory(index);
  const Bytes kept = memory_limit_ + std::max(kLeastGaps, memory_limit_ / kGapsShare);
  if (kept < total) {
    allocator::setMemoryFraction(static_cast<double>(kept) / static_cast<double>(total),
                                 torch_index(index));
  }
}

cudaStream_t CudaDevice::stream(Lane lane) const {
  assert(!is_host_lane(lane));
  return streams_.at(static_cast<std::size_t>(lane)).get();
}

c10::cuda::CUDAStream CudaDevice::compute_stream() const {
  return c10::cuda::getStreamFromExternal(stream(Lane::Compute), torch_index(index_));
}

void CudaDevice::make_current() const {
  check(cudaSetDevice(index_), "use the GPU");
  c10::cuda::setCurrentCUDAStream(compute_stream());
}

WorkRecorder* CudaDevice::recorder() {
  if (!recorder_) recorder_.emplace(compute_stream());
  return &*recorder_;
}

void CudaDevice::wait_idle() const noexcept {
  for (const Stream& stream : streams_) static_cast<void>(cudaStreamSynchronize(stream.get()));
}

MemoryBlock CudaDevice::allocate(Bytes bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  try {
    data = allocator::raw_alloc_with_stream(size(bytes), stream(Lane::Compute));
  } catch (const c10::OutOfMemoryError&) {
    throw OutOfDeviceMemory(bytes, allocated_now(index_), memory_limit_);
  }
  MemoryBlock block(static_cast<std::byte*>(data), [](std::byte* p) { allocator::raw_delete(p); });
  check(cudaMemsetAsync(data, 0, size(bytes), stream(Lane::Compute)), "clear device memory");
  streams_[0].synchronize();
  return block;
}

MemoryBlock CudaDevice::allocate_uncounted(Bytes bytes) {
  auto owner = std::make_shared<DeviceBuffer>(bytes);
  return {owner->data(), [owner](std::byte*) {}};
}

MemoryBlock CudaDevice::allocate_pinned(Bytes bytes) {
  auto owner = std::make_shared<PinnedBlock>(bytes);
  return {owner->data(), [owner](std::byte*) {}};
}

MemoryBlock CudaDevice::pin(MemoryBlock memory, Bytes bytes) {
  if (!memory) return memory;
  auto owner = std::make_shared<PinnedBlock>(std::move(memory), bytes);
  return {owner->data(), [owner](std::byte*) {}};
}

Bytes CudaDevice::peak() const {
  return allocator::getDeviceStats(torch_index(index_)).allocated_bytes[0].peak;
}

void CudaDevice::reset_peak() { allocator::resetPeakStats(torch_index(index_)); }

void CudaDevice::copy_now(void* to, const void* from, Bytes bytes) {
  if (is_host_memory(to) && is_host_memory(from)) return host_.copy_now(to, from, bytes);
  const cudaStream_t stream = this->stream(Lane::Compute);
  check(cudaMemcpyAsync(to, from, size(bytes), cudaMemcpyDefault, stream), "copy");
  check(cudaStreamSynchronize(stream), "copy");
}

void CudaDevice::clear_now(void* memory, Bytes bytes) {
  if (is_host_memory(memory)) return host_.clear_now(memory, bytes);
  const cudaStream_t stream = this->stream(Lane::Compute);
  check(cudaMemsetAsync(memory, 0, size(bytes), stream), "clear");
  check(cudaStreamSynchronize(stream), "clear");
}

void CudaDevice::copy(Lane lane, void* to, const void* from, Bytes bytes) {
  if (lane == Lane::CpuAdam) return host_.copy(lane, to, from, bytes);
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, size(bytes), cudaMemcpyDefault, stream(lane)), "start a copy");
}

void CudaDevice::clear(Lane lane, void* memory, Bytes bytes) {
  if (lane == Lane::CpuAdam) return host_.clear(lane, memory, bytes);
  if (bytes == 0) return;
  check(cudaMemsetAsync(memory, 0, size(bytes), stream(lane)), "clear memory");
}

void CudaDevice::accumulate(Lane lane, float* sum, const void* addend, DataType dtype,
                            std::int64_t elements, bool add) {
  if (lane == Lane::CpuAdam) return host_.accumulate(lane, sum, addend, dtype, elements, add);
  const MemoryLocation sum_home = lane == Lane::D2H ? MemoryLocation::Host : MemoryLocation::Device;
  launch_accumulate(stream(lane), sum, sum_home, addend, dtype == DataType::BFloat16, elements,
                    add);
  check_launch("accumulate gradients");
}

void CudaDevice::adam(Lane lane, const AdamWork& work) {
  if (lane == Lane::CpuAdam) return host_.adam(lane, work);
  assert(work.from == work.to && !work.only_if_scaled && "a GPU's updates wait for the norm");
  launch_adam(stream(lane),
              {.state = work.to,
               .gradient = work.gradient,
               .gradient_is_bf16 = work.gradient_dtype == DataType::BFloat16},
              work.segments, adam_step(work.coefficients), work.gradient_scale);
  check_launch("AdamW");
}

void CudaDevice::square_sum(Lane lane, const void* values, DataType dtype, std::int64_t elements,
                            int threads, ExactSum* result) {
  if (lane == Lane::CpuAdam) {
    return host_.square_sum(lane, values, dtype, elements, threads, result);
  }
  assert(lane == Lane::Compute || lane == Lane::Collective);
  const DeviceBuffer& partials = lane == Lane::Compute ? compute_partials_ : collective_partials_;
  launch_square_sum(stream(lane), values, dtype == DataType::BFloat16, elements,
                    reinterpret_cast<DoubleDouble*>(partials.data()), sums(result));
  check_launch("sum squares");
}

void CudaDevice::sum(Lane lane, std::span<const ExactSum> values, ExactSum* result) {
  if (lane == Lane::CpuAdam) return host_.sum(lane, values, result);
  launch_sum(stream(lane), sums(values.data()), static_cast<int>(values.size()), sums(result));
  check_launch("add square sums");
}

void CudaDevice::clip(Lane lane, std::span<const ExactSum> square_sums, float limit,
                      ClippingResult* result) {
  if (lane == Lane::CpuAdam) return host_.clip(lane, square_sums, limit, result);
  launch_norm(stream(lane), sums(square_sums.data()), static_cast<int>(square_sums.size()), limit,
              kNormEpsilon, &result->norm, &result->scale);
  check_launch("compute the gradient norm");
}

}  // namespace athanor::cuda
