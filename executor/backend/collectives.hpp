// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks, in place on one contiguous buffer whose i-th part belongs to rank i.
// A seam: MPI between processes, a local form for one process (NCCL on CUDA).
#pragma once

#include "sim/base/quantities.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace athanor {

class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;

  /// Part `rank()` of `buffer` (world_size * part_bytes long) is spread to every rank.
  virtual void all_gather(void* buffer, Bytes part_bytes) = 0;
  /// Element-wise sum over ranks; afterwards part `rank()` holds this rank's share of the sum, the
  /// other parts are undefined. `elements` of the whole buffer, divisible by world_size. bf16 is
  /// summed in fp32 and rounded once. The order of summation is rank 0, 1, .. for every element.
  virtual void reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) = 0;
  /// Element-wise sum over ranks on every rank, same order of summation.
  virtual void all_reduce(void* buffer, std::int64_t elements, DataType dtype) = 0;
  virtual void barrier() = 0;

  /// Waiting ends with Error("cancelled") soon after `cancelled` becomes true.
  void set_cancel_flag(const std::atomic<bool>* cancelled) noexcept { cancelled_ = cancelled; }

 protected:
  const std::atomic<bool>* cancelled_ = nullptr;
};

/// One process: nothing moves.
[[nodiscard]] std::unique_ptr<Collectives> make_local_collectives();

/// MPI over all processes of the job. Initializes MPI (MPI_THREAD_SERIALIZED) if nobody has and
/// finalizes it on destruction. Waits by polling with short sleeps, because ranks of the CPU
/// backend share cores with their own compute lanes.
[[nodiscard]] std::unique_ptr<Collectives> make_mpi_collectives();

/// Ends every process of the job at once (MPI_Abort), or this one where there is no job.
[[noreturn]] void abort_job(int exit_code) noexcept;

}  // namespace athanor
