// SPDX-License-Identifier: Apache-2.0
// Collectives by NCCL between the ranks of a job, one GPU each.
#pragma once

#include "executor/backend/collectives.hpp"
#include "executor/cuda/handles.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <nccl.h>

#include <atomic>
#include <memory>

namespace athanor::cuda {

/// One rank's communicator. Aborting it ends its collectives on any stream, from any thread.
class NcclCommunicator {
 public:
  /// Connects the ranks that hold `id`, which meet_ranks() gives. Throws Error with NCCL's reason.
  NcclCommunicator(const RankInfo& rank, const ncclUniqueId& id);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] ncclComm_t get() const noexcept { return comm_; }
  [[nodiscard]] const RankInfo& rank() const noexcept { return rank_; }
  /// Throws Error unless `status` is success.
  void check(ncclResult_t status, const char* what) const;
  /// Throws Error when NCCL has noticed a failure of its own, such as a peer that went away.
  void check_health() const;
  void abort() noexcept;

 private:
  RankInfo rank_;
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> aborted_ = false;
};

/// Collectives on device memory, which enqueue on a stream and return. NCCL chooses the order of
/// summation, which is the same on every run of one job. bf16 is rounded at every addition.
class StreamCollectives final : public Collectives {
 public:
  StreamCollectives(NcclCommunicator& communicator, cudaStream_t stream)
      : communicator_(communicator), stream_(stream) {}
  [[nodiscard]] int rank() const noexcept override { return communicator_.rank().rank; }
  [[nodiscard]] int world_size() const noexcept override { return communicator_.rank().world_size; }
  void all_gather(void* buffer, Bytes part_bytes) override;
  void reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) override;
  void all_reduce(void* buffer, std::int64_t elements, DataType dtype) override;
  void all_to_all(const void* from, void* to, Bytes part_bytes) override;
  /// Throws Error: a stream has no barrier to wait in.
  void barrier() override;

 private:
  NcclCommunicator& communicator_;
  cudaStream_t stream_;
};

/// Collectives on host memory, which go through a buffer on the device and return when they are
/// done. They use the same stream. For small exchanges, and for weights outside steps.
class HostCollectives final : public Collectives {
 public:
  HostCollectives(NcclCommunicator& communicator, cudaStream_t stream);
  [[nodiscard]] int rank() const noexcept override { return on_device_.rank(); }
  [[nodiscard]] int world_size() const noexcept override { return on_device_.world_size(); }
  void all_gather(void* buffer, Bytes part_bytes) override;
  void reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) override;
  void all_reduce(void* buffer, std::int64_t elements, DataType dtype) override;
  void all_to_all(const void* from, void* to, Bytes part_bytes) override;
  void barrier() override;

 private:
  void gather_piece(std::byte* buffer, Bytes part_bytes, Bytes offset, Bytes bytes);
  void wait() const;

  NcclCommunicator& communicator_;
  cudaStream_t stream_;
  StreamCollectives on_device_;
  DeviceBuffer staging_;
  Event done_{Event::Use::Order};
};

}  // namespace athanor::cuda
