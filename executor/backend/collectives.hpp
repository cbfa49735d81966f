// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks on contiguous buffers whose i-th part belongs to rank i: in place, but
// for all_to_all.
// An interface: MPI between processes, a local form for one process, NCCL on CUDA.
#pragma once

#include "sim/base/quantities.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace athanor {

/// Collectives of one rank. Every rank calls the same ones in the same order.
class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;

  /// Copies part `rank()` of `buffer` to every rank. `buffer` has world_size * part_bytes bytes.
  virtual void all_gather(void* buffer, Bytes part_bytes) = 0;
  /// Sums `buffer` over ranks, element by element. Afterwards part `rank()` holds this
  /// rank's share of the sum, and the other parts are undefined. `elements` counts the whole buffer
  /// and divides by world_size. bf16 is summed in fp32 and rounded once. Every element is summed in
  /// the order rank 0, 1, ..; NCCL chooses its own.
  virtual void reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) = 0;
  /// Sums `buffer` over ranks, on every rank and in the order of reduce_scatter().
  virtual void all_reduce(void* buffer, std::int64_t elements, DataType dtype) = 0;
  /// Sends part i of `from` to rank i, and writes what rank i sends into part i of `to`. Both have
  /// world_size * part_bytes bytes, and do not overlap.
  virtual void all_to_all(const void* from, void* to, Bytes part_bytes) = 0;
  virtual void barrier() = 0;

  /// Makes waiting end with Error("cancelled") soon after `*cancelled` becomes true.
  void set_cancel_flag(const std::atomic<bool>* cancelled) noexcept { cancelled_ = cancelled; }

 protected:
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace athanor
