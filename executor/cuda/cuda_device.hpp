// SPDX-License-Identifier: Apache-2.0
// One GPU: a stream per lane, memory from LibTorch's caching allocator.
#pragma once

#include "executor/backend/device.hpp"
#include "executor/backend/host_device.hpp"
#include "executor/cuda/graph_recorder.hpp"
#include "executor/cuda/handles.hpp"
#include "executor/cuda/issuing_thread.hpp"

#include <array>
#include <optional>

namespace athanor::cuda {

/// A GPU as a device. peak() counts what LibTorch's allocator hands out, to tensors and to
/// allocate() alike: bytes rounded up to 512, cuBLAS workspaces included. It does not count the
/// CUDA context, NCCL's buffers and memory that the allocator keeps for later or between tensors.
class CudaDevice final : public Device {
 public:
  /// Makes GPU `index` the calling thread's. A `memory_limit` of 0 is all of it. Throws Error.
  CudaDevice(int index, Bytes memory_limit);

  [[nodiscard]] int index() const noexcept override { return index_; }
  [[nodiscard]] DeviceArena* arena() noexcept override { return nullptr; }
  [[nodiscard]] WorkRecorder* recorder() override;
  [[nodiscard]] MemoryBlock allocate(Bytes bytes) override;
  [[nodiscard]] MemoryBlock allocate_uncounted(Bytes bytes) override;
  [[nodiscard]] MemoryBlock allocate_pinned(Bytes bytes) override;
  [[nodiscard]] MemoryBlock pin(MemoryBlock memory, Bytes bytes) override;
  [[nodiscard]] Bytes peak() const override;
  void reset_peak() override;
  void copy_now(void* to, const void* from, Bytes bytes) override;
  void clear_now(void* memory, Bytes bytes) override;

  // The CPU's Adam lane works on host memory and is done when the call returns.
  void copy(Lane lane, void* to, const void* from, Bytes bytes) override;
  void clear(Lane lane, void* memory, Bytes bytes) override;
  void accumulate(Lane lane, float* sum, const void* addend, DataType dtype, std::int64_t elements,
                  bool add) override;
  void adam(Lane lane, const AdamWork& work) override;
  void square_sum(Lane lane, const void* values, DataType dtype, std::int64_t elements, int threads,
                  ExactSum* result) override;
  void sum(Lane lane, std::span<const ExactSum> values, ExactSum* result) override;
  void clip(Lane lane, std::span<const ExactSum> square_sums, float limit,
            ClippingResult* result) override;

  /// The lane's stream; the host's lanes have none.
  [[nodiscard]] cudaStream_t stream(Lane lane) const;
  /// Selects this GPU for the calling thread, and the compute lane's stream for LibTorch's
  /// operators.
  void make_current() const;
  [[nodiscard]] IssuingThread& issuer() noexcept { return issuer_; }
  /// Waits until every lane's stream is idle, or broken, which was reported when it happened.
  void wait_idle() const noexcept;

 private:
  [[nodiscard]] c10::cuda::CUDAStream compute_stream() const;

  struct Selected {
    explicit Selected(int index);
  };

  int index_;
  Bytes memory_limit_;
  Selected selected_;  // before everything that belongs to the GPU
  std::array<Stream, 4> streams_;
  DeviceBuffer compute_partials_, collective_partials_;  ///< partial sums of squares on these lanes
  std::optional<GraphRecorder> recorder_;                ///< absent: nothing was recorded yet
  HostDevice host_;
  IssuingThread issuer_;
};

}  // namespace athanor::cuda
