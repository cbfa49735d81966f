// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/handles.hpp"

#include <string>
#include <utility>

namespace athanor::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

int device_count() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

Stream::Stream(Priority priority) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "read stream priorities");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == Priority::High ? greatest : least),
        "create a stream");
}

Stream::~Stream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "wait for a stream"); }

Event::Event(Use use) {
  check(cudaEventCreateWithFlags(
            &event_, use == Use::Time ? cudaEventDefault : unsigned{cudaEventDisableTiming}),
        "create an event");
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

void Event::record(cudaStream_t stream) const {
  check(cudaEventRecord(event_, stream), "record an event");
}

Seconds Event::since(const Event& earlier) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "time an event");
  constexpr double kSecondsPerMillisecond = 1e-3;
  return double{milliseconds} * kSecondsPerMillisecond;
}

DeviceBuffer::DeviceBuffer(Bytes bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<std::size_t>(bytes)),
        ("allocate " + format_bytes(bytes) + " of device memory").c_str());
  data_ = static_cast<std::byte*>(data);
  check(cudaMemset(data_, 0, static_cast<std::size_t>(bytes)), "clear device memory");
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

PinnedBlock::PinnedBlock(Bytes bytes) : PinnedBlock(allocate_host_memory(bytes), bytes) {}

PinnedBlock::PinnedBlock(MemoryBlock memory, Bytes bytes)
    : memory_(std::move(memory)), bytes_(bytes) {
  if (bytes == 0) return;
  check(cudaHostRegister(memory_.get(), static_cast<std::size_t>(bytes),
                         cudaHostRegisterPortable | cudaHostRegisterMapped),
        ("page-lock " + format_bytes(bytes) + " of host memory").c_str());
}

PinnedBlock::~PinnedBlock() {
  if (memory_) cudaHostUnregister(memory_.get());
}

PinnedBlock::PinnedBlock(PinnedBlock&& other) noexcept { *this = std::move(other); }

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace athanor::cuda
