// SPDX-License-Identifier: Apache-2.0
// Owners of the CUDA run-time's objects, and its checked results.
#pragma once

#include "executor/backend/host_memory.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/quantities.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace athanor::cuda {

/// Throws Error "CUDA: WHAT: reason" unless `status` is success.
void check(cudaError_t status, const char* what);

/// Throws Error when a kernel could not be launched.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

/// Number of devices that this process can use; 0 without a driver. Never throws.
[[nodiscard]] int device_count() noexcept;

class Stream {
 public:
  enum class Priority { Normal, High };
  /// Creates a stream that does not wait for the legacy default stream. Kernels of High priority
  /// start before those of others.
  explicit Stream(Priority priority = Priority::Normal);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  enum class Use { Order, Time };
  explicit Event(Use use = Use::Time);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }
  void record(cudaStream_t stream) const;
  /// Seconds from `earlier` to this event; both must be complete.
  [[nodiscard]] Seconds since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Device memory outside LibTorch's allocator, for buffers that are small or older than it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(Bytes bytes);  ///< zeroed
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// Pinned memory that both sides address alike. It comes from allocate_host_memory() and is
/// registered once.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  explicit PinnedBlock(Bytes bytes);
  PinnedBlock(MemoryBlock memory, Bytes bytes);  ///< takes the memory over
  ~PinnedBlock();
  PinnedBlock(PinnedBlock&& other) noexcept;
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;
  [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
  [[nodiscard]] Bytes size() const noexcept { return bytes_; }

 private:
  MemoryBlock memory_;
  Bytes bytes_ = 0;
};

}  // namespace athanor::cuda
